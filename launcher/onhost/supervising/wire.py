"""What goes back to the client: a line that it finds after any login noise, then frames."""

from __future__ import annotations

import json
from typing import Any, Callable

from .files import write_all

MARKER = "GPULAUNCH-RUN-1"
REFUSED = 3


class Refused(Exception):
    """The request cannot be carried out; the text is for a person."""


def say(document: dict[str, Any]) -> None:
    """Print the marker line that the client looks for after any login noise."""
    write_all(1, ("%s %s\n" % (MARKER, json.dumps(document))).encode())


def frame(header: dict[str, Any], data: bytes = b"") -> memoryview:
    """Return one frame as it goes over the wire: a JSON header line, then the bytes it announces."""
    return memoryview(json.dumps(header).encode() + b"\n" + data)


def answer(work: Callable[[], int]) -> int:
    """Do what was asked, or say why not; return the exit code of the process at the client's end."""
    try:
        return work()
    except Refused as refusal:
        say({"refused": str(refusal)})
        return REFUSED
