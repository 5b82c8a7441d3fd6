"""Who is at this machine, as runs are signed and ends are reported."""

import getpass
import grp
import os
import pwd
import stat

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


def is_open_to_others(state: os.stat_result) -> bool:
    """Return whether another user than root may write a file; a group of this user alone has no others."""
    if state.st_uid not in (os.geteuid(), 0) or state.st_mode & stat.S_IWOTH:
        return True
    return bool(state.st_mode & stat.S_IWGRP) and not _is_own_group(state.st_gid)


def _is_own_group(gid: int) -> bool:
    """Return whether a group is that of the user alone, which many systems give each user."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    own = gid == user.pw_gid and group.gr_name == user.pw_name
    return own and set(group.gr_mem) <= {user.pw_name}
