"""Lines that say more of a reported failure: CUDA's status, a kernel's assertion, NCCL's last error. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.process_ends import SYSTEM_ERROR
from preflight.diagnosis.signature_matcher import SignatureHit, find_first_match
from preflight.diagnosis.signatures.cuda_statuses import KERNEL_ASSERTION
from preflight.diagnosis.signatures.table import CausalDepth, Signature
from preflight.diagnosis.tracebacks import MOST_BELOW, ParsedException

_Place: TypeAlias = tuple[object, int]
_SOME_STATUS = "S33"
_NAMES_STATUS, _STATUS_BELOW = re.compile(r"Search for [`'\"]cudaError\w+['\"] in "), 4
_FAILED, _PRINTED = "S123", re.compile(KERNEL_ASSERTION)
_LAST_ERROR = re.compile(r"\bLast error: (\S.*)")
_NCCL_KINDS = frozenset({SYSTEM_ERROR, "S131"})


def refine_statuses(shown: Sequence[SignatureHit]) -> list[SignatureHit]:
    """Return the hits without torch's status below one; its row counts if the message names none."""
    named: dict[_Place, SignatureHit] = {
        (hit.line.stream, hit.line.order): hit for hit in shown if _NAMES_STATUS.match(hit.line.text)
    }
    below = {hit.line.order: _just_below(hit.line, named) for hit in shown} if named else {}
    repeated = {reference.line.order for reference in below.values() if reference is not None}
    return [
        SignatureHit(reference.row, hit.line)
        if (reference := below.get(hit.line.order)) and hit.row.code == _SOME_STATUS
        else hit
        for hit in shown
        if hit.line.order not in repeated
    ]


def _just_below(line: Line, named: Mapping[_Place, SignatureHit]) -> SignatureHit | None:
    places = ((line.stream, line.order + below) for below in range(1, _STATUS_BELOW))
    return next((named[place] for place in places if place in named), None)


def refine_assertions(hits: Sequence[SignatureHit]) -> list[SignatureHit]:
    """Return the hits; those that only say that an assertion failed get the row of the one a kernel printed.

    A kernel prints without a rank's prefix, so an assertion of no rank is every rank's.
    """
    printed = [hit for hit in hits if hit.row.code != _FAILED and _PRINTED.search(hit.line.text)]
    return [
        SignatureHit(_row_of(hit.line, printed), hit.line) if printed and hit.row.code == _FAILED else hit
        for hit in hits
    ]


def _row_of(line: Line, printed: Sequence[SignatureHit]) -> Signature:
    own = next((hit for hit in printed if hit.line.stream == line.stream), printed[0])
    return own.row


def add_last_errors(
    shown: Sequence[SignatureHit], raised: Sequence[ParsedException], lines: Sequence[Line]
) -> list[SignatureHit]:
    """Return the hits with those of what NCCL wrote last, which says more than the kind of its error."""
    found = {each.line.order: hits for each in raised if (hits := _of_last_error(each, lines))}
    said = {order for start in found for order in range(start, start + MOST_BELOW + 1)}
    kept = [hit for hit in shown if hit.line.order not in said or hit.row.code not in _NCCL_KINDS]
    return [*kept, *(hit for hits in found.values() for hit in hits)]


def _of_last_error(raised: ParsedException, lines: Sequence[Line]) -> list[SignatureHit]:
    """Return the hits of what NCCL itself wrote last, which torch repeats below its own message."""
    said = _LAST_ERROR.search(raised.below)
    row = find_first_match(f"NCCL WARN {said[1]}") if said else None
    if said is None or row is None or row.depth is not CausalDepth.ROOT:
        return []
    below = lines[raised.line.order + 1 : raised.line.order + 1 + MOST_BELOW]
    own = [line for line in below if said[1].startswith(line.text.strip() or "\0")]
    return [SignatureHit(row, line) for line in (*own[:1], raised.line)]
