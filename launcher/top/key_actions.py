"""What a key does: where a person is on the screen, and what is to be done beyond it. Pure."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal

from launcher.top.row_order import SORT_KEYS, Row, RowOptions
from launcher.top.views import HostView
from preflight.frozen import dataclass

Page = Literal["table", "processes", "help"]
Action = Literal["quit", "clean", "stacks", "inspect"]
_PAGES: dict[str, Page] = {"enter": "processes", "?": "help"}
_ACTIONS: dict[str, Action] = {"z": "clean", "s": "stacks", "r": "inspect"}
HELP = (
    "up/down, PageUp/PageDown, Home/End   choose a line (k and j, too)",
    "Enter    processes on the chosen GPU, with the class and the evidence of clean-zombies",
    "space    fold a host to one line, or unfold it; hosts whose GPUs are all free are folded at first",
    "h        one line for each host, and back;  a unfolds all hosts",
    "o        order by host, use, memory or user",
    "f        only GPUs that a launch would find free;  m only GPUs that processes of yours are on",
    "Escape   order and filter as at the start",
    "s        stacks of the run on the chosen GPU: what each rank executes; the run continues",
    "z        clean-zombies on the chosen host: shows what is left over and asks before it ends anything",
    "r        read the chosen host's processes anew, or connect to it now",
    "q        quit; Ctrl-C quits with exit code 130",
    "",
    "THR    T thermal, H hardware slowdown, B power brake: slower than it should be; p power cap,",
    "       a application clocks, d display clocks, s sync boost; - none",
    "CLASS  of the process, as `gpulaunch clean-zombies` has it; free and claimed as a launch would find it",
    "?      it cannot be seen",
    "Grey   not the present: its age says since when",
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a person is: the page, the chosen line, how far it is scrolled, and what is shown."""

    page: Page = "table"
    selected: tuple[str, int] | None = None
    offset: int = 0  # first row of the table, or first line of a page of text
    options: RowOptions = field(default_factory=RowOptions)


def apply_key(
    position: Position, key: str, rows: Sequence[Row], height: int
) -> tuple[Position, Action | None]:
    """Return the position after a key, and what the key asks for. `height`: rows that fit at once."""
    if key == "q" and position.page == "table":
        return position, "quit"
    if position.page != "table":
        return _on_text(position, key, height), None
    if key in _PAGES:
        opens = key == "?" or any(row.key == position.selected for row in rows)
        return (replace(position, page=_PAGES[key], offset=0) if opens else position), None
    if key in _ACTIONS:
        return position, _ACTIONS[key]
    changed = _changed_options(position, key, rows)
    if changed is not None:
        return replace(position, options=changed, offset=0), None
    return _moved(position, key, rows, height), None


def settle_position(position: Position, rows: Sequence[Row], height: int) -> Position:
    """Return the position with a line selected that exists and is in sight."""
    if position.page != "table" or not rows:
        return position
    keys = [row.key for row in rows]
    at = keys.index(position.selected) if position.selected in keys else _nearest(position, rows)
    offset = min(position.offset, at, max(0, len(rows) - height))
    return replace(position, selected=keys[at], offset=max(offset, at - height + 1, 0))


def _nearest(position: Position, rows: Sequence[Row]) -> int:
    """Return a line of the same host: its GPUs were folded, or unfolded."""
    if position.selected is None:
        return 0
    same = [at for at, row in enumerate(rows) if row.host.name == position.selected[0]]
    return same[0] if same else min(position.offset, len(rows) - 1)


def _on_text(position: Position, key: str, height: int) -> Position:
    if key in ("q", "escape", "enter", "?"):
        return replace(position, page="table", offset=0)
    steps = {"up": -1, "down": 1, "page-up": -height, "page-down": height, "home": -(1 << 30)}
    return replace(position, offset=max(0, position.offset + steps.get(key, 0)))


def _changed_options(position: Position, key: str, rows: Sequence[Row]) -> RowOptions | None:
    options = position.options
    if key == "o":
        following = SORT_KEYS[(SORT_KEYS.index(options.sort) + 1) % len(SORT_KEYS)]
        return replace(options, sort=following)
    if key == "f":
        return replace(options, only="all" if options.only == "free" else "free")
    if key == "m":
        return replace(options, only="all" if options.only == "mine" else "mine")
    if key == "a":
        everyone = frozenset(row.host.name for row in rows)
        return replace(options, only="all", by_host=False, folded=frozenset(), unfolded=everyone)
    if key == "h":
        return replace(options, by_host=not options.by_host, folded=frozenset(), unfolded=frozenset())
    if key == "space":
        host = next((row.host for row in rows if row.key == position.selected), None)
        return None if host is None else _toggled(options, host)
    if key == "escape":
        return RowOptions()
    return None


def _toggled(options: RowOptions, host: HostView) -> RowOptions:
    """Return the options with one host folded that was not, or unfolded."""
    name = {host.name}
    if options.folds(host):
        return replace(options, folded=options.folded - name, unfolded=options.unfolded | name)
    return replace(options, folded=options.folded | name, unfolded=options.unfolded - name)


def _moved(position: Position, key: str, rows: Sequence[Row], height: int) -> Position:
    if not rows:
        return position
    keys = [row.key for row in rows]
    at = keys.index(position.selected) if position.selected in keys else 0
    steps = {
        "up": -1,
        "down": 1,
        "page-up": -height,
        "page-down": height,
        "home": -len(rows),
        "end": len(rows),
    }
    at = min(max(0, at + steps.get(key, 0)), len(rows) - 1)
    return replace(position, selected=keys[at])
