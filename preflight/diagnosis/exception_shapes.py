"""Of very many exceptions those to judge: some of each shape, of unlike shapes the first and last. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from preflight import regex as re
from preflight.diagnosis.signature_matcher import SignatureHit
from preflight.diagnosis.tracebacks import ParsedException

_MANY = 100  # exceptions of a log that are all judged
_FEW = 5  # chains of one shape judged at the log's start and end: as many as are shown
_MOST_UNLIKE = 30
"""So many unlike chains that no row knows are judged at the start, and at the end: a cause is the first."""
# What differs between exceptions for one reason: what is quoted, paths, addresses, numbers.
_VARIES = re.compile(
    r"'[^']{0,400}'|\"[^\"]{0,400}\"|\S{0,200}/\S{0,400}|\b(?:0x)?[\da-f]{8,}\b|[\d.]+", re.IGNORECASE
)
Item = TypeVar("Item")


def select_exceptions(
    raised: Sequence[ParsedException], hits: Sequence[SignatureHit]
) -> tuple[Sequence[ParsedException], Sequence[SignatureHit]]:
    """Return the exceptions that are judged, and the hits without those on the other ones' lines."""
    if len(raised) <= _MANY:
        return raised, hits
    codes = {hit.line.order: hit.row.code for hit in hits}
    alike: dict[object, list[list[ParsedException]]] = {}
    for chain in group_chains(raised):
        alike.setdefault(tuple(_shape_of(each, codes) for each in chain), []).append(chain)
    known = [like for like in alike.values() if any(each.line.order in codes for each in like[0])]
    unknown = [like for like in alike.values() if not any(each.line.order in codes for each in like[0])]
    judged = [*known, *_ends(unknown, _MOST_UNLIKE)]
    kept = {each.line.order for like in judged for chain in _ends(like, _FEW) for each in chain}
    dropped = {each.line.order for each in raised} - kept
    return (
        [each for each in raised if each.line.order in kept],
        [hit for hit in hits if hit.line.order not in dropped],
    )


def group_chains(raised: Sequence[ParsedException]) -> list[list[ParsedException]]:
    """Return the exceptions of each process that belong together."""
    chains: dict[object, list[ParsedException]] = {}
    for each in raised:
        chains.setdefault((each.line.stream, each.chain), []).append(each)
    return list(chains.values())


def _shape_of(raised: ParsedException, codes: Mapping[int, str]) -> tuple[object, ...]:
    """Return what exceptions of one reason share: process, place, row and the words that do not vary."""
    function = raised.location and raised.location.function
    code, words = codes.get(raised.line.order), _VARIES.sub("0", raised.message)
    return raised.line.stream, raised.follows, raised.type, function, code, words


def _ends(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Return so many of the first and so many of the last items."""
    return items if len(items) <= 2 * most else [*items[:most], *items[-most:]]
