"""Protocol with the client: requests on stdin; on stdout a marker line after any login noise, then frames."""

import json
import os
import signal
import zlib
from typing import Any

from .files import write_all

MARKER = "GPULAUNCH-RUN-1"
REFUSED = 3
ARRIVES_S = 600  # for a request, the client.pack of a start included
TRUNCATED = "the request did not arrive whole"


class RequestRefused(Exception):
    """Refusal of a request; the text is for the user, and so is `fix`: what to type next, or empty."""

    def __init__(self, text: str, fix: str = "") -> None:
        super().__init__(text)
        self.fix = fix


def read_request() -> bytes:
    """Return the request on stdin: its length as a line, then the compressed text.

    Reads not a byte more: the rest belongs to the follower. Raises RequestRefused where it did not arrive; a
    client that vanishes in between ends this process, which sshd would keep for hours.
    """
    signal.alarm(ARRIVES_S)
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            raise RequestRefused(TRUNCATED)
        line += byte
    data = b""
    while len(data) < int(line):
        part = os.read(0, int(line) - len(data))
        if not part:
            raise RequestRefused(TRUNCATED)
        data += part
    signal.alarm(0)
    return zlib.decompress(data)


def send_header(document: dict[str, Any]) -> None:
    """Print the marker line that the client searches for after any login noise."""
    write_all(1, ("%s %s\n" % (MARKER, json.dumps(document))).encode())


def encode_frame(header: dict[str, Any], data: bytes = b"") -> memoryview:
    """Return one frame in wire format: a JSON header line, then the bytes it announces."""
    return memoryview(json.dumps(header).encode() + b"\n" + data)
