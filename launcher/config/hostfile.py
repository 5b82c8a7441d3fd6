"""The hostfile of a command: `HOST slots=N` a line, as DeepSpeed and Open MPI take it."""

from launcher.engines.command_line.parsed_command import HostFilter
from launcher.errors import BadInput
from launcher.local.home import expand_home

_MOST_DIGITS = 6


def read_hostfile(name: str) -> tuple[HostFilter, ...]:
    """Return the hosts of a hostfile, none where no name is given. Raises BadInput."""
    if not name:
        return ()
    try:
        lines = expand_home(name).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        fix = "correct its path, or leave it out and name the hosts: --hosts A,B"
        raise BadInput(f"{name}: the hostfile of the command cannot be read: {why}", fix) from None
    found = [_read_line(name, number, line) for number, line in enumerate(lines, 1)]
    return tuple(one for one in found if one is not None)


def _read_line(name: str, number: int, line: str) -> HostFilter | None:
    words = line.partition("#")[0].split()
    if not words:
        return None
    host, colon, count = words[0].partition(":")
    slots = next((word.partition("=")[2] for word in words[1:] if word.startswith("slots=")), count)
    if (colon or len(words) > 1) and not (slots.isdecimal() and len(slots) <= _MOST_DIGITS):
        raise BadInput(f"{name}:{number}: expected HOST slots=N, got {line.strip()!r}")
    return HostFilter(host, slots=int(slots) if slots else None)
