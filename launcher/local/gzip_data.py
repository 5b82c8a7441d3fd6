"""Files that a user hands in, read within bounds, and unpacked where they are compressed with gzip."""

import zlib
from typing import BinaryIO

_MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's window, with gzip's head and check
MAX_BYTES = 64 << 20


class TooLargeError(ValueError):
    """More than a file of its kind can have; the text says how much that is."""


class DamagedGzipError(ValueError):
    """What is compressed is damaged, cut or too large; the text says which."""


def read_within(stream: BinaryIO, most: int) -> bytes:
    """Return all that a stream has, at most so many bytes. Raises TooLargeError: a pipe may never end."""
    data = stream.read(most)
    if stream.read(1):
        raise TooLargeError(f"larger than {most >> 20} MiB")
    return data


def decompress_gzip(data: bytes) -> bytes:
    """Return data as they are, or unpacked where they are of gzip. Raises DamagedGzipError."""
    if not data.startswith(_MAGIC):
        return data
    reader = zlib.decompressobj(_GZIP)
    try:
        plain = reader.decompress(data, MAX_BYTES)
    except zlib.error:
        raise DamagedGzipError("compressed with gzip, and damaged") from None
    if reader.unconsumed_tail:
        raise DamagedGzipError(f"larger than {MAX_BYTES >> 20} MiB when it is unpacked")
    if not reader.eof:
        raise DamagedGzipError("compressed with gzip, and cut")
    return plain
