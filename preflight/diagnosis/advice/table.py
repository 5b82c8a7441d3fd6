"""What the words of a log narrow its cause to, and what to do then: the table of advice. Pure.

Rows are tried in this order: the first that fits and has a cause or a fix gives both, the first that fits
and has a command gives that. A new row goes into the module of its signature's topic beside this one.
"""

from collections.abc import Sequence

from preflight import regex as re
from preflight.diagnosis.advice import (
    collectives,
    exit_messages,
    files,
    gpus,
    memory,
    precision,
    rendezvous,
    software,
)
from preflight.diagnosis.advice.model import Advice

_TABLE = (
    *precision.ROWS,
    *gpus.ROWS,
    *memory.ROWS,
    *rendezvous.ROWS,
    *collectives.ROWS,
    *software.ROWS,
    *files.ROWS,
    *exit_messages.ROWS,
)


_BY_CODE: dict[str, list[Advice]] = {}
for _row in _TABLE:
    for _code in _row.codes.split():
        _BY_CODE.setdefault(_code, []).append(_row)


def find_advice(code: str, text: str, places: Sequence[str] = ()) -> tuple[str, str, str]:
    """Return (cause, fix, command) for a signature's lines with those below, and the innermost frames.

    "" is the signature's own.
    """
    with_frames = "\n".join((text, *places))
    cause, fix, command = "", "", None
    for row in _BY_CODE.get(code, ()):
        if re.search(row.words, with_frames if row.in_frames else text, re.MULTILINE):
            if not (cause or fix):
                cause, fix = row.cause, row.fix
            command = row.command if command is None else command
    return cause, fix, command or ""
