"""One picture of the screen, as lines of spans. Pure."""

import time
from collections.abc import Sequence

from launcher.cleanup.clean import CleanOptions, find_leftovers
from launcher.cleanup.render import render_named_pids, render_selection
from launcher.terminal.cell_width import Span, truncate
from launcher.text import count_noun, format_memory
from launcher.top.host_monitor import HostState
from launcher.top.key_actions import HELP, Position
from launcher.top.row_order import Row, Totals, count_totals
from launcher.top.table import Line, render_gpu_table, render_run_table
from launcher.top.views import FleetView
from preflight.leftovers.selection import CleanFilter

_HEADER = 2
_MOST_RUNS = 5
_FOOTER = (
    "q quit",
    "? help",
    "o order",
    "f free",
    "m mine",
    "Enter processes",
    "s stacks",
    "z clean",
    "h hosts",
    "space fold",
    "a all",
)


def calculate_table_height(height: int, runs: int) -> int:
    """Return how many rows of GPUs fit on a screen of `height` lines."""
    below = 1 + (min(runs, _MOST_RUNS) + 2 if runs else 0)
    return max(1, height - _HEADER - 1 - below)


def render_frame(
    view: FleetView, rows: Sequence[Row], position: Position, size: tuple[int, int], message: str = ""
) -> list[Line]:
    """Return the table page for a screen of (columns, lines)."""
    width, height = size
    fit = calculate_table_height(height, len(view.runs))
    shown = rows[position.offset : position.offset + fit]
    lines = [*_header(view, position, len(rows), fit, width)]
    lines += render_gpu_table(_leading(shown), width, options=position.options, selected=position.selected)
    lines += [[] for _ in range(fit - len(shown))]
    if view.runs:
        lines += [[], *render_run_table(view.runs[-_MOST_RUNS:], width)]
    lines.append([("1;33", message)] if message else [("2", _fitting(_FOOTER, width))])
    return [truncate(line, width) for line in lines[:height]]


def render_text_page(
    lines: Sequence[str], title: str, position: Position, size: tuple[int, int]
) -> list[Line]:
    """Return a page of text: a title, the lines from `position.offset` on, and how to leave."""
    width, height = size
    fit = max(1, height - 3)
    offset = min(position.offset, max(0, len(lines) - fit))
    shown: list[Line] = [truncate([("", line)], width) for line in lines[offset : offset + fit]]
    shown += [[] for _ in range(fit - len(shown))]
    foot = truncate([("2", "Escape or Enter back, up and down scroll")], width)
    return [truncate([("1", title)], width), [], *shown, foot][:height]


def wrap_help(width: int) -> list[str]:
    """Return the lines of the help, those that are wider than the screen continued below their text."""
    if width >= max(map(len, HELP)):
        return [*HELP]
    from textwrap import wrap  # noqa: PLC0415 - only a narrow screen pays for it

    starts = (len(line) - len(line.partition("  ")[2].lstrip()) if "  " in line else 0 for line in HELP)
    indents = (" " * (start if start < width // 2 else 2) for start in starts)
    return [
        part
        for line, indent in zip(HELP, indents, strict=True)
        for part in wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]
    ]


def render_processes(state: HostState, index: int) -> list[str]:
    """Return the processes on one GPU (-1: on the host) as clean-zombies shows them."""
    if state.facts is None:
        return ["nothing is known of it yet"]
    gpus = () if index < 0 else (index,)
    options = CleanOptions(CleanFilter(gpus=gpus))
    choice = find_leftovers(state.entry, state.facts, options).selection
    return [*render_selection(state.facts, choice), *render_named_pids(state.facts, choice, options.filter)]


def _leading(rows: Sequence[Row]) -> list[Row]:
    """Return rows of which the first names its host, wherever the screen starts."""
    return [Row(row.host, row.gpu) if at == 0 else row for at, row in enumerate(rows)]


def _fitting(parts: Sequence[str], width: int) -> str:
    """Return as many of the parts from the first on as fit whole."""
    shown = parts[0]
    for part in parts[1:]:
        if len(shown) + 2 + len(part) > width:
            break
        shown += f"  {part}"
    return shown


def _header(view: FleetView, position: Position, rows: int, fit: int, width: int) -> list[Line]:
    totals = count_totals(view.hosts)
    clock = time.strftime("%H:%M:%S", time.localtime(view.time_unix))
    options = position.options
    chosen = f"order: {options.sort}  shown: {options.only}{', by host' if options.by_host else ''}"
    if not rows and options.only != "all":
        chosen += "  no such GPU: Escape shows all"
    if rows > fit:
        chosen += f"  lines {position.offset + 1} to {min(position.offset + fit, rows)} of {rows}"
    return [
        truncate(
            [("1", "gpulaunch top"), ("", f"  {clock}  "), *summarize_totals(totals, width - 25)], width
        ),
        truncate([("2", chosen)], width),
    ]


def summarize_totals(totals: Totals, width: int = 1000) -> list[Span]:
    """Return the headline: hosts, GPUs, and memory where it fits."""
    spans: list[Span] = [("", count_noun(totals.hosts, "host"))]
    if totals.lost:
        spans.append(("1;33", f" ({totals.lost} lost)"))
    spans += [
        ("", f"  {count_noun(totals.gpus, 'GPU')}: {totals.held} held, "),
        ("32", f"{totals.free} free"),
    ]
    if totals.unknown:
        spans.append(("33", f", {totals.unknown} unknown"))
    memory = f"  memory {_tib(totals.used_mib)} of {_tib(totals.total_mib)}" if totals.total_mib else ""
    if sum(len(text) for _, text in spans) + len(memory) <= width:
        spans.append(("", memory))
    return spans


def _tib(mib: float) -> str:
    return format_memory(mib) if mib < 10 * 1024**2 else f"{mib / 1024**2:.1f} TiB"
