"""Messages whose first line is empty and that say far below what is wrong: a compiler's, behind the source that it was given. Pure."""

from collections.abc import Iterator, Sequence

from preflight.diagnosis.lines import Line
from preflight.diagnosis.signature_matcher import SignatureHit
from preflight.diagnosis.signatures.table import CausalDepth
from preflight.diagnosis.tracebacks import MOST_BELOW, ParsedException, wraps_another

_LONGEST = 2000
"""Lines of a message; torch shows the source of a kernel that NVRTC refused."""


def hits_of_long_messages(
    raised: Sequence[ParsedException], hits: Sequence[SignatureHit], failing: Sequence[Line]
) -> Iterator[SignatureHit]:
    """Yield, for each exception whose first line is empty, the first cause that its process prints behind it.

    Behind the next exception of that process, or a launcher's line about a failure, nothing is its message any more.
    """
    empty = [each for each in raised if not (each.message or each.bare or wraps_another(each))]
    if not empty:
        return
    matched = {hit.line.order for hit in hits}
    launchers = [line.order for line in failing if line.order not in matched]
    for each in empty:
        start, stream = each.line.order, each.line.stream
        others = (other.line.order for other in raised if other.line.stream == stream)
        end = min((order for order in (*others, *launchers) if order > start), default=start + _LONGEST)
        own = (hit for hit in hits if start + MOST_BELOW < hit.line.order < min(end, start + _LONGEST))
        first = next((hit for hit in own if hit.line.stream == stream), None)
        if first is not None and first.row.depth is CausalDepth.ROOT:
            yield SignatureHit(first.row, each.line)
