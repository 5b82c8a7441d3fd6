"""Which node, or which link between two nodes, is slow: from the rates of pairs. Pure."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from preflight.deep.margins import median
from preflight.frozen import dataclass

Pair = tuple[str, str]

_LEVEL = 0.8
"""The rate that pairs are compared with has this share of all rates below it: one slow node is in two of n
pairs, which with three nodes is most of them, so that a median would be its own rate."""


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What the rates of all pairs say."""

    reference: float | None  # None: too few pairs to compare
    nodes: tuple[str, ...] = ()  # slow with two or more different partners
    links: tuple[Pair, ...] = ()  # slow with each other only
    unresolved: tuple[Pair, ...] = ()  # slow, and a node or the link may be why
    noisy: tuple[Pair, ...] = ()  # slow at times: repetitions differ too much to say


def judge_pairs(
    rates: Mapping[Pair, float], margin: float, repeats: Mapping[Pair, Sequence[float]] | None = None
) -> PairVerdict:
    """Name what is slow: below `margin` of what most pairs reach, and in every repetition, if any.

    The node with most slow pairs is taken first; its pairs then accuse no other one. A pair that is left is a
    slow link if both of its nodes are fast with another one.
    """
    if len(rates) < 3:
        return PairVerdict(None)
    ordered = sorted(rates.values())
    reference = ordered[math.ceil(_LEVEL * (len(ordered) - 1))]
    suspects = [pair for pair, rate in rates.items() if rate < margin * reference]
    low, noisy = _confirm(suspects, margin, repeats or {})
    known = [pair for pair in rates if pair not in noisy]
    left, nodes = set(low), []
    while (node := _most_accused(left, known)) is not None:
        nodes.append(node)
        left = {pair for pair in left if node not in pair}
    fast = {name for pair in known if pair not in low for name in pair}
    remaining = [pair for pair in low if pair in left]
    links = tuple(pair for pair in remaining if fast.issuperset(pair))
    unresolved = tuple(pair for pair in remaining if pair not in links)
    unclear = tuple(pair for pair in noisy if not set(nodes).intersection(pair))
    return PairVerdict(reference, tuple(nodes), links, unresolved, unclear)


def _confirm(
    suspects: Sequence[Pair], margin: float, repeats: Mapping[Pair, Sequence[float]]
) -> tuple[list[Pair], list[Pair]]:
    """Return the suspects that are slow in every repetition, and those that are so in some.

    A repetition goes through suspects and witnesses in turn. A suspect is slow if its best repetition is
    below the margin of the witnesses' worst, and is cleared if its median is not below that of theirs. A
    suspect that was not repeated, since there were too many, counts as slow unless another one was cleared
    or unclear.
    """
    witnesses = [values for pair, values in repeats.items() if pair not in suspects and values]
    if not witnesses:
        return list(suspects), []
    bars = [margin * median(each) for each in zip(*witnesses, strict=False)]
    low, noisy, cleared, open_suspects = [], [], 0, []
    for pair in suspects:
        values = repeats.get(pair, ())
        if not values:
            open_suspects.append(pair)
        elif max(values) < min(bars):
            low.append(pair)
        elif median(values) < median(bars):
            noisy.append(pair)
        else:
            cleared += 1
    (noisy if noisy or cleared else low).extend(open_suspects)
    return low, noisy


def _most_accused(low: set[Pair], known: Sequence[Pair]) -> str | None:
    """Return the node that is in most slow pairs: two at least, and more than half of its own."""
    accused: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for pair in known:
        for name in pair:
            total[name] += 1
            accused[name] += pair in low
    candidates = [name for name in total if accused[name] >= 2 and accused[name] * 2 > total[name]]
    return max(candidates, key=lambda name: (accused[name], name), default=None)
