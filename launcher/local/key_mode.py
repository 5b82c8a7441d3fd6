"""Whether OpenSSH would take a private key file."""

import os
import stat
from contextlib import suppress

from launcher.errors import BadInput
from launcher.local.home import at_home, shorten_path
from preflight.checks.message_text import quote_path

_OTHERS = 0o077


def describe_open_key(file: str) -> str:
    """Return what is wrong with a key of the user's that others may read, and the fix; "" where nothing is.

    gpulaunch takes such a key, and a command that it prints for ssh would not. The rule is OpenSSH's
    (`sshkey_perm_ok`): it refuses a key of the user's own with any right of group or others.
    """
    with suppress(OSError, ValueError, BadInput):  # where it is offered, it is reported
        status = at_home(file).stat()
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid == os.getuid() and mode & _OTHERS:
            name = quote_path(shorten_path(file))
            return f"{name} has mode {mode:o}: others have rights on it, so ssh refuses it; chmod 600 {name}"
    return ""
