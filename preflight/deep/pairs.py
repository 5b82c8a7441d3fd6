"""Which node, or which link between two nodes, is slow: from the rates of pairs. Pure."""

import math
from collections import defaultdict
from collections.abc import Mapping

from preflight.frozen import dataclass

Pair = tuple[str, str]

_LEVEL = 0.8
"""The rate that pairs are compared with has this share of all rates below it: one slow node is in two of n
pairs, which with three nodes is most of them, so that a median would be its own rate."""


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What the rates of all pairs say."""

    reference: float | None  # None: too few pairs to compare
    low: tuple[Pair, ...] = ()
    nodes: tuple[str, ...] = ()  # slow with two or more different partners
    links: tuple[Pair, ...] = ()  # slow with each other only
    unresolved: tuple[Pair, ...] = ()  # slow, and a node or the link may be why


def judge_pairs(rates: Mapping[Pair, float], margin: float) -> PairVerdict:
    """Name what is slow: below `margin` of what most pairs reach.

    The node with most slow pairs is taken first; its pairs then accuse no other one. A pair that is left is a
    slow link if both of its nodes are fast with another one.
    """
    if len(rates) < 3:
        return PairVerdict(None)
    ordered = sorted(rates.values())
    reference = ordered[math.ceil(_LEVEL * (len(ordered) - 1))]
    low = tuple(pair for pair, rate in rates.items() if rate < margin * reference)
    left, nodes = set(low), []
    while True:
        node = _most_accused(left, rates)
        if node is None:
            break
        nodes.append(node)
        left = {pair for pair in left if node not in pair}
    fast = {name for pair in rates if pair not in low for name in pair}
    remaining = [pair for pair in low if pair in left]
    links = tuple(pair for pair in remaining if fast.issuperset(pair))
    unresolved = tuple(pair for pair in remaining if pair not in links)
    return PairVerdict(reference, low, tuple(nodes), links, unresolved)


def _most_accused(low: set[Pair], rates: Mapping[Pair, float]) -> str | None:
    """Return the node that is in most slow pairs: two at least, and more than half of its own."""
    accused: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for pair in rates:
        for name in pair:
            total[name] += 1
            accused[name] += pair in low
    candidates = [name for name in total if accused[name] >= 2 and accused[name] * 2 > total[name]]
    return max(candidates, key=lambda name: (accused[name], name), default=None)
