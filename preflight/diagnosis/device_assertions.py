"""What the check was that failed in a GPU kernel: the kernel prints it, and the exception that follows does not. Pure."""

import re
from collections.abc import Sequence

from preflight.diagnosis.lines import Line
from preflight.diagnosis.signature_matcher import SignatureHit
from preflight.diagnosis.signatures.cuda_statuses import KERNEL_ASSERTION
from preflight.diagnosis.signatures.table import Signature

_FAILED = "S123"
_PRINTED = re.compile(KERNEL_ASSERTION)


def by_printed_assertions(hits: Sequence[SignatureHit]) -> list[SignatureHit]:
    """Return the hits, of which those that only say that an assertion failed are of the row of the one that a kernel printed.

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
