"""Protocol with the client: requests on stdin; on stdout a marker line after any login noise, then frames."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any, Callable

from .files import write_all

MARKER = "GPULAUNCH-RUN-1"
REFUSED = 3


class RequestRefused(Exception):
    """Refusal of a request; the text is for the user."""


def read_message() -> bytes | None:
    """Return the next message on stdin: its length as a line, then its text. None: stdin has ended.

    Reads not a byte more: the rest belongs to the follower.
    """
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        line += byte
    data = b""
    while len(data) < int(line):
        part = os.read(0, int(line) - len(data))
        if not part:
            return None
        data += part
    return data


def request_of(message: bytes | None) -> bytes:
    """Return the request in a program's first message. Raises RequestRefused where it did not arrive."""
    if message is None:
        raise RequestRefused("the request did not arrive whole")
    return zlib.decompress(message)


def send_header(document: dict[str, Any]) -> None:
    """Print the marker line that the client searches for after any login noise."""
    write_all(1, ("%s %s\n" % (MARKER, json.dumps(document))).encode())


def frame(header: dict[str, Any], data: bytes = b"") -> memoryview:
    """Return one frame in wire format: a JSON header line, then the bytes it announces."""
    return memoryview(json.dumps(header).encode() + b"\n" + data)


def run_handler(work: Callable[[], int]) -> int:
    """Handle the request, or report the refusal; return the exit code of the process at the client's end."""
    try:
        return work()
    except RequestRefused as refusal:
        send_header({"refused": str(refusal)})
        return REFUSED
