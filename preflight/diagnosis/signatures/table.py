"""What dying runs print, what it means, what to do: the table that `preflight.diagnosis` searches with.

Rows are tried in this order on each line, and the first that matches takes the line; so the specific is
above the general. A new row goes into the module of its topic in `preflight/diagnosis/signatures/`.
"""

from preflight.diagnosis.signatures import (
    benign,
    collectives,
    exit_messages,
    files,
    gpus,
    memory,
    precision,
    rendezvous,
    software,
)
from preflight.diagnosis.signatures.model import CausalDepth, Notice, Signature

__all__ = ["NOTICES", "SIGNATURES", "CausalDepth", "Notice", "Signature", "signature"]

_TABLE: tuple[Signature, ...] = (
    *precision.ROWS,
    *gpus.ROWS,
    *memory.ROWS,
    *rendezvous.ROWS,
    *collectives.ROWS,
    *software.ROWS,
    *files.ROWS,
    *exit_messages.ROWS,
)
# What only reports another process is tried last.
SIGNATURES: tuple[Signature, ...] = tuple(sorted(_TABLE, key=lambda row: row.depth is CausalDepth.VICTIM))

NOTICES: tuple[Notice, ...] = benign.ROWS

_BY_CODE = {row.code: row for row in SIGNATURES}


def signature(code: str) -> Signature | None:
    """Return the row of a code, None when there is none."""
    return _BY_CODE.get(code)
