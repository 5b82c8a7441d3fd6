"""Who is at this machine, as runs are signed and ends are reported."""

import getpass
import os

from launcher.errors import BadInput


def read_login_name() -> str:
    """Return the name that ssh logs in with if none is given. Raises BadInput for a user without a name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # KeyError: before Python 3.13
        raise BadInput(
            f"you have no user name: no account of this machine has your uid {os.getuid()}",
            "name the user of the host, as in ada@HOST or user: ada in hosts.yaml, or set LOGNAME",
        ) from None


def read_user_name() -> str:
    """Return the user's name, or the number of one without a name."""
    try:
        return read_login_name()
    except BadInput:
        return str(os.getuid())


def format_user_at_machine() -> str:
    """Return `ada@laptop`."""
    return f"{read_user_name()}@{os.uname().nodename}"
