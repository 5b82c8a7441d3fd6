"""The tables as lines of spans: rich measures and aligns, and everything still goes through the door."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from launcher.terminal.cell_width import Span, measure_width, truncate
from launcher.text import one_line, open_console
from launcher.top import cells
from launcher.top.row_order import Row, RowOptions
from launcher.top.views import HostView, RunView
from preflight.frozen import dataclass

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Line = list[Span]
_CODES = {
    "": "",
    "dim": "2",
    "bold": "1",
    "green": "32",
    "yellow": "33",
    "red": "31",
    "bold red": "1;31",
    "cyan": "36",
}
"""Styles by name as the numbers of an SGR sequence."""
_REVERSED = "7"
_MARK, _NO_MARK = "> ", "  "
_GAP = " "


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    needs: int  # columns of the terminal from which on it is shown
    justify: Literal["left", "right"] = "left"
    takes_rest: bool = False


_COLUMNS = (
    _Column("HOST", 0),
    _Column("GPU", 0, "right"),
    _Column("MODEL", 120),
    _Column("USE", 0),
    _Column("MEMORY", 50),
    _Column("W", 90, "right"),
    _Column("°C", 70, "right"),
    _Column("THR", 80),
    _Column("CLASS", 60),
    _Column("USER", 40),
    _Column("AGE", 80),
    _Column("COMMAND", 55, takes_rest=True),
    _Column("RUN", 140),
)
_BARS_FROM = 130
_LONG_RUNS_FROM = 170
_ALIGNED_FROM = 60  # from so many columns on names have places; a long one moves what follows
_NAME_SHARE = 3
_AS_AT_START = RowOptions()
_FOLDED_TITLES = ("GPUS", "USE", "MEMORY", "TEMP", "THR", "USER", "")
_RIGHT = (1, 2)  # cells of a folded host that are numbers
_BAR = 8
_RUN_GAP = 2
_SHORTEST_RUN = 18
_LEFT_OUT = ("GPUS", "HOSTS", "LAST OUTPUT", "ETA", "STATE")  # of runs, where the terminal is too narrow
_RUN_TITLES = ("RUN", "STATE", "STEP", "LOSS", "ETA", "HOSTS", "GPUS", "LAST OUTPUT")


def render_gpu_table(
    rows: Sequence[Row],
    width: int,
    *,
    options: RowOptions = _AS_AT_START,
    selected: tuple[str, int] | None = None,
) -> list[Line]:
    """Return the title line and one line for each row, none wider than `width`."""
    from rich.table import Table  # noqa: PLC0415 - 60 ms that only tables need to pay

    columns = [column for column in _COLUMNS if width >= column.needs]
    table = Table(box=None, pad_edge=False, show_edge=False, expand=True, padding=0)
    for at, column in enumerate(columns):
        table.add_column(
            _text(_GAP[not at :] + column.title, "bold"),
            justify=column.justify,
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if column.takes_rest else None,
        )
    wide = width >= _BARS_FROM
    for row in rows:
        cell = _row_cells(row, wide=wide, run_width=40 if width >= _LONG_RUNS_FROM else 24)
        cells = [cell.get(column.title, ("", "")) for column in columns]
        # A blank of our own between columns: rich's padding costs as much as all else of it.
        table.add_row(*(_text(_GAP[not at :] + text, style) for at, (text, style) in enumerate(cells)))
    inner = max(1, width - len(_MARK))
    title, *lines = _rendered(table, inner)
    folded_title, hosts = _host_lines(rows, options, inner)
    shown = [hosts.get(row.key, line) for line, row in zip(lines, rows, strict=False)]
    title = folded_title if len(hosts) == len(rows) else title
    return [
        _marked(title, is_selected=False),
        *(_marked(line, is_selected=row.key == selected) for line, row in zip(shown, rows, strict=False)),
    ]


def render_run_table(runs: Sequence[RunView], width: int) -> list[Line]:
    """Return the table of runs, none of its lines wider than `width`; none at all where there is no run."""
    from rich.table import Table  # noqa: PLC0415

    if not runs:
        return []
    inner = max(1, width - len(_NO_MARK))
    titles, *rows = _fit_run_cells([_RUN_TITLES, *map(cells.run_cells, runs)], inner)
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _RUN_GAP, 0, 0))
    for title in titles:
        table.add_column(_text(title, "bold"), no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(_text(cell, "cyan" if at == 0 else "") for at, cell in enumerate(row)))
    return [[("", _NO_MARK), *line] for line in _rendered(table, inner)]


def _fit_run_cells(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return the rows with ids of runs shortened, then without the columns that are needed least."""
    widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
    kept = list(range(len(widths)))

    def lacks() -> int:
        return sum(widths[at] for at in kept) + _RUN_GAP * (len(kept) - 1) - width

    short = widths[0] if lacks() <= 0 else max(_SHORTEST_RUN, widths[0] - lacks())
    widths[0] = min(widths[0], short)
    for title in _LEFT_OUT:
        if lacks() > 0:
            kept.remove(_RUN_TITLES.index(title))
    return [[one_line(row[at], widths[0]) if at == 0 else row[at] for at in kept] for row in rows]


def _row_cells(row: Row, *, wide: bool, run_width: int) -> dict[str, tuple[str, str]]:
    old = "" if row.host.current else "dim"
    name = _name(row.host)
    if row.gpu is None:
        return {"HOST": (name, old)}
    gpu = row.gpu
    user, age, kind, command = cells.describe_holder(gpu)
    letters, serious = cells.format_throttle(gpu)
    share = cells.calculate_memory_percent(gpu)
    use = (
        f"{cells.draw_bar(gpu.busy_percent, _BAR)} " if wide else ""
    ) + f"{cells.format_percent(gpu.busy_percent):>4}"
    memory = (f"{cells.draw_bar(share, _BAR)} " if wide else "") + f"{cells.format_memory(gpu):>10}"
    return {
        "HOST": (name if row.leads else "", old),
        "GPU": (str(gpu.index), old),
        "MODEL": (gpu.model, old),
        "USE": (use, old),
        "MEMORY": (memory, old or ("yellow" if cells.is_nearly_full(gpu) else "")),
        "W": (cells.format_power(gpu), old),
        "°C": (cells.format_temperature(gpu), old),
        "THR": (letters, old or ("bold red" if serious else "")),
        "CLASS": (kind, old or cells.choose_kind_style(gpu)),
        "USER": (user, old),
        "AGE": (age, old),
        "COMMAND": (command, old),
        "RUN": (one_line(" ".join(gpu.run_ids), run_width), old or "cyan"),
    }


def _host_lines(
    rows: Sequence[Row], options: RowOptions, width: int
) -> tuple[Line, dict[tuple[str, int], Line]]:
    """Return the lines of hosts by their key, and a title for them: folded ones as a table."""
    hosts = [row.host for row in rows if row.gpu is None]
    folded = {host.name: cells.fold_cells(host) for host in hosts if host.current and options.folds(host)}
    names = max((measure_width(_name(row.host)) for row in rows), default=0)
    names = names if width >= _ALIGNED_FROM else min(names, width // _NAME_SHARE)
    titled = len(hosts) == len(rows)
    table = [*(row for row, _ in folded.values()), *([_FOLDED_TITLES] if titled else [])]
    widths = [max(measure_width(cell) for cell in column) for column in zip(*table, strict=True)]

    def line(name: str, name_style: str, row: Sequence[str], style: str) -> Line:
        parts = [_padded(cell, at, widths) for at, cell in enumerate(row)] if len(row) > 1 else row
        text = "  ".join(part for part in parts if part).rstrip()
        gap = " " * (2 + max(0, names - measure_width(name)))
        return truncate([(_CODES[name_style], name + gap), (_CODES[style], text)], width)

    lines = {}
    for host in hosts:
        text, colour = cells.describe_host(host)
        row, style = folded.get(host.name, ((text,), colour))
        lines[host.name, -1] = line(_name(host), "" if host.current else "dim", row, style)
    return line("HOST", "bold", _FOLDED_TITLES if folded else ("",), "bold"), lines


def _padded(cell: str, at: int, widths: Sequence[int]) -> str:
    blank = " " * (widths[at] - measure_width(cell))
    return blank + cell if at in _RIGHT else cell + blank


def _name(host: HostView) -> str:
    return one_line(host.name, 40)


def _rendered(table: "Table", width: int) -> list[Line]:
    from rich.style import Style  # noqa: PLC0415

    codes = {Style.parse(name): code for name, code in _CODES.items() if name}
    out = open_console(io.StringIO())
    options = out.options.update(width=width, no_wrap=True)
    return [
        [(codes.get(segment.style, "") if segment.style else "", segment.text) for segment in line]
        for line in out.render_lines(table, options, pad=False)
    ]


def _marked(line: Line, *, is_selected: bool) -> Line:
    if not is_selected:
        return [("", _NO_MARK), *line]
    coloured = ((code if text.strip() else "", text) for code, text in line)
    return [
        (_REVERSED, _MARK),
        *((f"{_REVERSED};{code}" if code else _REVERSED, text) for code, text in coloured),
    ]


def _text(text: str, style: str = "") -> "Text":
    from rich.text import Text  # noqa: PLC0415

    return Text(text, style=style, no_wrap=True)
