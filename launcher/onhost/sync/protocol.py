"""Input on stdin, in the format that main.py describes."""

import json
import zlib
from typing import Any, BinaryIO, Iterator

from .errors import SyncRefused

MAX_LINE = 1 << 20
MAX_CHUNK = 8 << 20


def read_request(stream: BinaryIO) -> dict[str, Any]:
    """Return the next line of stdin. Raises EOFError at its end."""
    line = stream.readline(MAX_LINE)
    if not line.endswith(b"\n"):
        raise EOFError
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise SyncRefused("the request is not understood")
    return fields


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """Return exactly this many bytes. Raises EOFError when the other side has gone."""
    data = stream.read(count)
    if len(data) != count:
        raise EOFError
    return data


def receive_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the data of one file, to its end mark."""
    while True:
        line = stream.readline(32)
        if not line.endswith(b"\n") or not line.strip().isdigit() or int(line) > MAX_CHUNK:
            raise EOFError
        if int(line) == 0:
            return
        packed = read_exactly(stream, int(line))
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, MAX_CHUNK)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise SyncRefused("a piece of a file is damaged; nothing was written")
        yield data
