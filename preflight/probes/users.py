"""Names of user ids."""

import pwd

from .fact import with_timeout

_NAME_S = 1.0
_UNANSWERED = -1  # in place of a user id: the directory server does not answer
_USERS: dict[int, str] = {}


def read_user_name(uid: int) -> str:
    """Return the name of a user id, or the number as text where it has none.

    Names may come from a directory server; once that has not answered, numbers have to do.
    """
    if uid not in _USERS:
        name = str(uid) if _UNANSWERED in _USERS else with_timeout(_NAME_S, lambda: pwd.getpwuid(uid).pw_name)
        if isinstance(name, dict) and name["code"] == "timeout":
            _USERS[_UNANSWERED] = ""
        _USERS[uid] = name if isinstance(name, str) else str(uid)
    return _USERS[uid]
