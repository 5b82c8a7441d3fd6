"""What dying runs print, what it means, what to do: the table that `preflight.diagnosis` searches with.

Rows are tried in this order on each line, and the first that matches takes the line; so the specific is
above the general. A new row goes into the module of its topic in `preflight/diagnosis/signatures/`, and below
the rows of the topic what some words of a log narrow a signature to, and what to do then.
"""

from collections.abc import Sequence
from dataclasses import replace

from preflight import regex as re
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
from preflight.diagnosis.signatures.model import Advice, CausalDepth, Notice, Signature

__all__ = ["NOTICES", "SEARCHED", "SIGNATURES", "CausalDepth", "Notice", "Signature", "find_signature"]

_TOPICS = (precision, gpus, memory, rendezvous, collectives, software, files, exit_messages)
_TABLE: tuple[Signature, ...] = tuple(row for topic in _TOPICS for row in topic.ROWS)
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


_ADVICE: dict[str, list[Advice]] = {}
for _row in (row for topic in _TOPICS for row in topic.ADVICE):
    for _code in _row.codes.split():
        _ADVICE.setdefault(_code, []).append(_row)


def find_advice(code: str, text: str, places: Sequence[str] = ()) -> tuple[str, str, str]:
    """Return (cause, fix, command) for a signature's lines with those below, and the innermost frames.

    The first row that fits and has a cause or a fix gives both, the first that fits and has a command gives
    that; "" is the signature's own.
    """
    with_frames = "\n".join((text, *places))
    cause, fix, command = "", "", None
    for row in _ADVICE.get(code, ()):
        if re.search(row.words, with_frames if row.in_frames else text, re.MULTILINE):
            if not (cause or fix):
                cause, fix = row.cause, row.fix
            command = row.command if command is None else command
    return cause, fix, command or ""
