"""Whole lines of a log that a terminal shows as they are, known as such without a look at each. Pure.

A log of a day has millions of lines, and next to none of them needs more than its origin in front.
"""

import re

from launcher.terminal.rows import MAX_LINE
from launcher.text import HIDDEN

_PLAIN = bytes((*b"\t\n", *range(0x20, 0x7F)))
_NO_CONTROL = bytes((0x1B, *range(0x80, 0x100)))
_SGR = re.compile(r"\x1b\[[0-9;]{0,64}m")


def read_plain(block: bytes, *, coloured: bool) -> str | None:
    """Return whole lines as text, its tabs left; None where a line needs care: it may steer, or is too long.

    `coloured`: the colours of a script are wanted, which have to end with their lines.
    """
    odd = block.translate(None, _PLAIN)
    if odd.translate(None, _NO_CONTROL) or (coloured and b"\x1b" in odd) or _has_long_line(block):
        return None
    text = block.decode("utf-8", "replace")
    if not odd:
        return text
    # Each character of the text is whole in `odd`: a byte that starts one never continues another.
    if not odd.isascii() and (b"\t" in block or re.search(HIDDEN, odd.decode("utf-8", "replace"))):
        return None  # wide characters move tab stops
    if b"\x1b" in odd:
        text = _SGR.sub("", text)
    return None if "\x1b" in text else text


def _has_long_line(block: bytes) -> bool:
    at = 0
    while at < len(block):
        at = block.rfind(b"\n", at, at + MAX_LINE + 1) + 1
        if not at:
            return True
    return False
