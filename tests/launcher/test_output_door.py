"""Nothing is printed but through launcher/terminal/output.py, which takes away what steers a terminal."""

import ast
import re
from pathlib import Path

from tests.launcher.sources import SOURCES, is_on_host, shown

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
MAY_PRINT = re.compile(
    r"\b(?:click|print|input|getpass|Console|show_?|stdout|stderr|__stdout__|__stderr__|_?stream)\b"
)
"""A word that each of these has."""
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
    text = path.read_text()
    if not MAY_PRINT.search(text):
        return set()
    tree = ast.parse(text)
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = {call for call in calls if FORBIDDEN.fullmatch(call) and not OURS.fullmatch(call)}
    if shown(path).startswith(ON_SCREENS):
        found |= {call for call in calls if STREAM.fullmatch(call)}
    named = {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    return found | ({"from click"} & {f"from {module}" for module in named})


ALLOWED = {
    "launcher/cli.py": {"error.show"}  # into a string, whose lines go through the door
}
