"""Who is at this machine, as runs are signed and ends are reported."""

import getpass
import os


def user_name() -> str:
    """Return the user's name, or the number of one without a name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def user_at_machine() -> str:
    """Return `ada@laptop`."""
    return f"{user_name()}@{os.uname().nodename}"
