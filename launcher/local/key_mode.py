"""Whether OpenSSH would take a private key file."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from launcher.errors import BadInput
from launcher.local.home import at_home, shorten_path
from preflight.checks.message_text import quote_path

_OTHERS = 0o077
_HEAD = re.compile(rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")
"""Of the private keys that OpenSSH reads. A public one names a key of the agent, and may be open to all."""


def describe_open_key(file: str) -> str:
    """Return what is wrong with a key of the user's that others may read, and the fix; "" where nothing is.

    gpulaunch takes such a key, and a command that it prints for ssh would not. The rule is OpenSSH's
    (`sshkey_perm_ok`): it refuses a key of the user's own with any right of group or others.
    """
    with suppress(OSError, ValueError, BadInput):  # where it is offered, it is reported
        path = at_home(file)
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        is_open = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and mode & _OTHERS
        if is_open and _is_private(path):
            name = quote_path(shorten_path(file))
            return f"{name} has mode {mode:o}: others have rights on it, so ssh refuses it; chmod 600 {name}"
    return ""


def _is_private(path: Path) -> bool:
    with path.open("rb") as file:
        return _HEAD.match(file.read(64)) is not None
