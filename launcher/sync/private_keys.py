"""Which files are private keys and never sent: mostly they open the very hosts that a tree is sent to."""

from preflight import regex as re

_PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )?PRIVATE KEY-----|PuTTY-User-Key-File-")
"""Its first bytes: PEM (RFC 7468), OpenSSH's PROTOCOL.key, PuTTY's format."""


def is_private_key(start: bytes) -> bool:
    """Return whether a file with these first bytes is one."""
    return _PRIVATE_KEY.match(start) is not None
