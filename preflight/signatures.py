"""What dying runs print, what it means, what to do: the table that `preflight.diagnosis` searches with.

Rows are tried in this order on each line, and the first that matches takes the line; so the specific stands
above the general. A new row goes into the module of its topic in `preflight/signature_rows/`.
"""

from preflight.signature_rows import (
    collectives,
    endings,
    files,
    gpus,
    meeting,
    memory,
    notices,
    precision,
    software,
)
from preflight.signature_rows.kind import Depth, Notice, Signature

__all__ = ["NOTICES", "SIGNATURES", "Depth", "Notice", "Signature", "signature"]

_TABLE: tuple[Signature, ...] = (
    *precision.ROWS,
    *gpus.ROWS,
    *memory.ROWS,
    *meeting.ROWS,
    *collectives.ROWS,
    *software.ROWS,
    *files.ROWS,
    *endings.ROWS,
)
# What only tells of another process is tried last.
SIGNATURES: tuple[Signature, ...] = tuple(sorted(_TABLE, key=lambda row: row.depth is Depth.VICTIM))

NOTICES: tuple[Notice, ...] = notices.ROWS

_BY_CODE = {row.code: row for row in SIGNATURES}


def signature(code: str) -> Signature | None:
    """Return the row of a code, None when there is none."""
    return _BY_CODE.get(code)
