"""Ranks of which the same is proven, as one: what they measured becomes a range. Pure.

A rank of which anything is not proven is never folded with one that measured something else.
"""

import re
from collections.abc import Sequence

from launcher.config.node_sets import host_range
from launcher.rehearsal.verdict import Proof, RankVerdict
from launcher.text import name_ranks
from preflight.frozen import dataclass

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.-]*\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks, as one says them, and what is proven of them all."""

    name: str
    proofs: tuple[Proof, ...]


def group_ranks(ranks: Sequence[RankVerdict]) -> list[RankGroup]:
    """Return groups in the order of their first ranks."""
    groups: dict[object, list[RankVerdict]] = {}
    for rank in ranks:
        whole = all(proof.ok for proof in rank.proofs)
        key: object = tuple(proof.name for proof in rank.proofs) if whole else rank.proofs
        groups.setdefault((whole, key), []).append(rank)
    return [RankGroup(_name(same), _merged(same)) for same in groups.values()]


def _name(ranks: Sequence[RankVerdict]) -> str:
    return f"{name_ranks(rank.rank for rank in ranks)} ({host_range(rank.host for rank in ranks)})"


def _merged(ranks: Sequence[RankVerdict]) -> tuple[Proof, ...]:
    columns = zip(*(rank.proofs for rank in ranks), strict=True)
    return tuple(
        Proof(column[0].name, column[0].ok, merge_texts([proof.text for proof in column]))
        for column in columns
    )


def merge_texts(texts: Sequence[str]) -> str:
    """Return texts that differ in numbers only as one with ranges; else the first, and how many others."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == 1:
        return distinct[0]
    if len({_NUMBER.sub("#", text) for text in distinct}) > 1:
        return f"{distinct[0]}, and {len(distinct) - 1} others"
    numbers = zip(*(_NUMBER.findall(text) for text in distinct), strict=True)
    ranges = iter([_range(column) for column in numbers])
    return _NUMBER.sub(lambda _: next(ranges), distinct[0])


def _range(numbers: Sequence[str]) -> str:
    least, most = min(numbers, key=float), max(numbers, key=float)
    return least if float(least) == float(most) else f"{least}..{most}"
