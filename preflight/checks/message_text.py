"""Pieces of messages: durations, sizes, and paths as words of commands that a person pastes into a shell."""

import shlex

START_UP = "the first line of ~/.bashrc on the host (zsh: ~/.zshenv)"
"""What a session without a terminal reads: Debian's ~/.bashrc returns early in one."""
_LEAST_MIB = 103  # a tenth of a GiB: below it a digit behind the point says nothing


def quote_path(path: str) -> str:
    """Return a path as one word of a shell; `~/` stays, because a shell replaces it only unquoted."""
    if path == "~":
        return path
    home, path = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + (shlex.quote(path) if path else "")


def format_rsync(options: str, source: str, login: str, goal: str) -> str:
    """Return the command that copies a path; what `login` (`ssh -p 22 user@name`) says becomes its --rsh."""
    *words, target = shlex.split(login)
    shell = f"-e {shlex.quote(shlex.join(words))} " if words[1:] else ""
    user, at, name = target.rpartition("@")
    to = f"{user}{at}[{name}]" if ":" in name else target
    return f"rsync {shell}{options} {quote_path(source)} {shlex.quote(to)}:{quote_path(goal)}"


def round_duration(seconds: float) -> str:
    """Return a duration as a person says it: 45 s, 12 min, 3 h, 5 d."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def format_gib(mib: float) -> str:
    """Return MiB as GiB, for messages; as MiB where that would be a zero."""
    return f"{mib:.0f} MiB" if 0 < mib < _LEAST_MIB else f"{mib / 1024:.1f} GiB"


def shorten(text: str, length: int) -> str:
    """Return a text of at most this many characters; "..." replaces what is left out."""
    return text if len(text) <= length else text[: length - 3] + "..."
