"""Messages whose first line is empty, which say far below what is wrong, as a compiler's do. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter

from preflight.diagnosis.lines import Line
from preflight.diagnosis.signature_matcher import SignatureHit
from preflight.diagnosis.signatures.table import CausalDepth
from preflight.diagnosis.tracebacks import MOST_BELOW, ParsedException, wraps_another

_LONGEST = 2000  # lines of a message; torch shows the source of a kernel that NVRTC refused


def find_long_hits(
    raised: Sequence[ParsedException], hits: Sequence[SignatureHit], failing: Sequence[Line]
) -> Iterator[SignatureHit]:
    """Yield, for each exception whose first line is empty, the first cause that its process prints behind it.

    A message ends at the next exception of that process, or at a launcher's line about a failure.
    """
    empty = [each for each in raised if not (each.message or each.bare or wraps_another(each))]
    if not empty:
        return
    matched = {hit.line.order for hit in hits}
    launchers = sorted(line.order for line in failing if line.order not in matched)
    exceptions, causes = defaultdict[object, list[int]](list), defaultdict[object, list[SignatureHit]](list)
    for line in sorted((each.line for each in raised), key=attrgetter("order")):
        exceptions[line.stream].append(line.order)
    for hit in sorted(hits, key=_order):
        causes[hit.line.stream].append(hit)
    for each in empty:
        start, own = each.line.order, causes[each.line.stream]
        ends = (_after(exceptions[each.line.stream], start), _after(launchers, start), start + _LONGEST)
        at = bisect_right(own, start + MOST_BELOW, key=_order)
        if at < len(own) and _order(own[at]) < min(ends) and own[at].row.depth is CausalDepth.ROOT:
            yield SignatureHit(own[at].row, each.line)


def _order(hit: SignatureHit) -> int:
    return hit.line.order


def _after(orders: Sequence[int], start: int) -> int:
    """Return the first of sorted orders behind `start`; where none is, one that is behind all messages."""
    at = bisect_right(orders, start)
    return orders[at] if at < len(orders) else start + _LONGEST
