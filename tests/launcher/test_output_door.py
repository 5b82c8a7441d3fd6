"""Nothing is printed but through launcher/terminal/output.py, which takes away what steers a terminal."""

import re
from pathlib import Path

from tests.launcher.sources import SOURCES, imports, is_on_host, read, shown

DOOR = "launcher/terminal/output.py"
OTHER_DOORS = {
    "launcher/commands/_answer.py": {"click.confirm"},
    "launcher/text.py": {"Console"},  # of the table that host_checks/live_table.py fills with cleaned words
    "launcher/terminal/outlet.py": {"self._stream.write"},  # what screens have painted
}
FORBIDDEN = re.compile(
    r"click\.(?:echo|secho|echo_via_pager|confirm|prompt)|(?:builtins\.)?(?:print|input)|\w+\.show_?"
    r"|sys\.(?:__)?std(?:out|err)(?:__)?(?:\.buffer)?\.(?:write|writelines)"
    r"|getpass\.getpass|(?:rich\.console\.)?Console"
)
CLICKS_MODULES = {"click.core", "click.shell_completion"}
STREAM = re.compile(r"(?:self\.)?_?stream\.(?:write|writelines)")
OURS = re.compile(r"(?:self|screen)\.show")
ON_SCREENS = tuple(
    f"launcher/{room}"
    for room in (
        "cleanup/",
        "commands/",
        "host_checks/",
        "lint/",
        "rehearsal/",
        "report/",
        "runs/render.py",
        "terminal/",
        "top/",
    )
)
"""Where a stream is one for people; elsewhere it leads to a host."""


def test_nothing_is_printed_but_through_the_door() -> None:
    found = {shown(path): _prints(path) for path in SOURCES if not is_on_host(path)}
    assert found.pop(DOOR)  # the rule does see what it forbids
    found = {
        name: calls - OTHER_DOORS.get(name, set()) - ALLOWED.get(name, set()) for name, calls in found.items()
    }
    assert {name: calls for name, calls in found.items() if calls} == {}


def _prints(path: Path) -> set[str]:
    """Return what a module calls of what prints, and "from click" where it imports names out of it."""
    calls = read(path).calls
    found = {call for call in calls if FORBIDDEN.fullmatch(call) and not OURS.fullmatch(call)}
    if shown(path).startswith(ON_SCREENS):
        found |= {call for call in calls if STREAM.fullmatch(call)}
    names = {name for name in imports(path, types=True) if re.fullmatch(r"click\.\w+", name)} - CLICKS_MODULES
    return found | ({"from click"} if names else set())


ALLOWED = {
    "launcher/cli.py": {"error.show"}  # into a string, whose lines go through the door
}
