"""What dying runs print, what it means, what to do: the table that `preflight.diagnosis` searches with.

Rows are tried in this order on each line, and the first that matches takes the line; so the specific is
above the general. A new row goes into the module of its topic in `preflight/diagnosis/signatures/`.
"""

from dataclasses import replace

from preflight.diagnosis.signatures import (
    benign,
    collectives,
    exit_messages,
    files,
    gpus,
    memory,
    platforms,
    precision,
    rendezvous,
    software,
    structures,
)
from preflight.diagnosis.signatures.model import CausalDepth, Notice, Signature

__all__ = ["NOTICES", "SEARCHED", "SIGNATURES", "CausalDepth", "Notice", "Signature", "find_signature"]

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
SIGNATURES: tuple[Signature, ...] = tuple(sorted(_TABLE, key=lambda row: row.depth is CausalDepth.VICTIM))
"""Every row once. What only reports another process is tried last."""

NOTICES: tuple[Notice, ...] = benign.ROWS

_BY_CODE = {row.code: row for row in SIGNATURES}
_BROAD = tuple(
    replace(_BY_CODE[code], pattern=pattern, broad=True)
    for code, pattern in (*platforms.PATTERNS, *structures.PATTERNS)
)
_HEADINGS = tuple(
    replace(_BY_CODE[code], pattern=pattern, depth=CausalDepth.GENERAL, broad=True)
    for code, pattern in platforms.HEADINGS
)
SEARCHED: tuple[Signature, ...] = (*SIGNATURES, *_BROAD, *_HEADINGS)
"""The rows as they are searched for: behind the wordings that a row knows, what its messages are about."""


def find_signature(code: str) -> Signature | None:
    """Return the row of a code, None when there is none."""
    return _BY_CODE.get(code)
