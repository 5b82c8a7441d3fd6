"""Bytes of a terminal as keys. Pure."""

import re

_NAMED = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[5~": "page-up",
    b"\x1b[6~": "page-down",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1bOH": "home",
    b"\x1bOF": "end",
    b"\x1b[1~": "home",
    b"\x1b[4~": "end",
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "escape",
    b" ": "space",
    b"k": "up",
    b"j": "down",
}
_KEY = re.compile(rb"\x1b\[[0-9;]{0,16}[A-Za-z~]|\x1bO[A-Za-z]|\x1b\[[0-9;]{0,16}|[\x00-\xff]", re.DOTALL)


def decode_keys(data: bytes) -> list[str]:
    """Return the keys in what one read gave: special ones by name, else the character."""
    keys = []
    for match in _KEY.finditer(data):
        name = _NAMED.get(match[0])
        if name is None and len(match[0]) == 1 and match[0].isascii() and match[0].decode().isprintable():
            name = match[0].decode()
        if name:
            keys.append(name)
    return keys
