"""The tables as lines of spans: rich measures and aligns, and everything still goes through the door."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from launcher.terminal.cell_width import Span, truncate
from launcher.text import console, one_line
from launcher.top import cells
from launcher.top.records import RunView
from launcher.top.rows import Row
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
_BAR = 8
_RUN_TITLES = ("RUN", "STATE", "STEP", "LOSS", "ETA", "HOSTS", "GPUS", "LAST OUTPUT")


def gpu_lines(rows: Sequence[Row], width: int, *, selected: tuple[str, int] | None = None) -> list[Line]:
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
        cell = _row_cells(row, wide=wide)
        cells = [cell.get(column.title, ("", "")) for column in columns]
        # A blank of our own between columns: rich's padding costs as much as all else of it.
        table.add_row(*(_text(_GAP[not at :] + text, style) for at, (text, style) in enumerate(cells)))
    inner = max(1, width - len(_MARK))
    lines = _rendered(table, inner)
    marks = [None, *(row.key for row in rows)]
    return [
        _marked(_with_host_text(line, row, inner), is_selected=selected is not None and key == selected)
        for line, key, row in zip(lines, marks, [None, *rows], strict=False)
    ]


def run_lines(runs: Sequence[RunView], width: int) -> list[Line]:
    """Return the table of runs, none of its lines wider than `width`; none at all where there is no run."""
    from rich.table import Table  # noqa: PLC0415

    if not runs:
        return []
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for title in _RUN_TITLES:
        table.add_column(_text(title, "bold"), no_wrap=True, overflow="ellipsis")
    for run in runs:
        table.add_row(
            *(_text(cell, "cyan" if at == 0 else "") for at, cell in enumerate(cells.run_cells(run)))
        )
    return [[("", _NO_MARK), *line] for line in _rendered(table, max(1, width - len(_NO_MARK)))]


def _row_cells(row: Row, *, wide: bool) -> dict[str, tuple[str, str]]:
    old = "" if row.host.current else "dim"
    name = one_line(row.host.name, 40)
    if row.gpu is None:
        return {"HOST": (name, old)}
    gpu = row.gpu
    user, age, kind, command = cells.holder(gpu)
    letters, serious = cells.throttle(gpu)
    share = cells.memory_percent(gpu)
    use = (f"{cells.bar(gpu.busy_percent, _BAR)} " if wide else "") + f"{cells.percent(gpu.busy_percent):>4}"
    memory = (f"{cells.bar(share, _BAR)} " if wide else "") + f"{cells.memory(gpu):>10}"
    return {
        "HOST": (name if row.leads else "", old),
        "GPU": (str(gpu.index), old),
        "MODEL": (gpu.model, old),
        "USE": (use, old),
        "MEMORY": (memory, old or ("yellow" if cells.is_nearly_full(gpu) else "")),
        "W": (cells.power(gpu), old),
        "°C": (cells.temperature(gpu), old),
        "THR": (letters, old or ("bold red" if serious else "")),
        "CLASS": (kind, old or cells.kind_style(gpu)),
        "USER": (user, old),
        "AGE": (age, old),
        "COMMAND": (command, old),
        "RUN": (one_line(" ".join(gpu.run_ids), 24), old or "cyan"),
    }


def _with_host_text(line: Line, row: Row | None, width: int) -> Line:
    """Return a host's line with what is said of it in place of the columns of a GPU."""
    if row is None or row.gpu is not None:
        return line
    text, style = cells.host_text(row.host)
    name_style = "" if row.host.current else "dim"
    return truncate([(_CODES[name_style], f"{one_line(row.host.name, 40)}  "), (_CODES[style], text)], width)


def _rendered(table: "Table", width: int) -> list[Line]:
    from rich.style import Style  # noqa: PLC0415

    codes = {Style.parse(name): code for name, code in _CODES.items() if name}
    out = console(io.StringIO())
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
