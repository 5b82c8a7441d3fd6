"""argv as one text for the login shell of a host: the only place where words are quoted for one."""

import shlex
from collections.abc import Iterable

from preflight import regex as re

_BARE = frozenset("\\!'")
_SPECIAL = re.compile(r"([\\!'])")


def quote_argv(argv: Iterable[str]) -> str:
    """Quote for the login shell of a host, which may expand one thing only: a leading ~/ of the program."""
    program, *rest = argv
    head = "~/" + _word(program[2:]) if program.startswith("~/") else _word(program)
    return " ".join((head, *map(_word, rest)))


def _word(text: str) -> str:
    r"""Quote one word for sh, bash, zsh, fish and csh alike.

    Inside single quotes csh still reads "!" and fish a backslash; outside of them a backslash before either,
    and before the quote itself, means the same to all. For a line break csh has no quoting that others have.
    """
    parts = _SPECIAL.split(text)
    return "".join("\\" + part if part in _BARE else part and shlex.quote(part) for part in parts) or "''"
