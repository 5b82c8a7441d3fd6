"""The heat map of a preflight page: kinds of hosts by families of checks, a colour and a letter each."""

from collections.abc import Iterator

from launcher.host_checks.evaluation import PreflightResult
from launcher.report.html.escape import text
from launcher.report.preflight_page.heat_rows import (
    CRITICAL,
    NOT_ASKED,
    PASS,
    STATE_WORDS,
    STATES,
    UNKNOWN,
    HeatCell,
    HeatRow,
    families,
    heat_rows,
)
from launcher.report.preflight_page.host_names import row_head

_NAMES = {
    "HOST": "whether the host can be used",
    "ENV": "Python environment",
    "DRV": "NVIDIA driver",
    "GPU": "GPUs that the launch wants",
    "MODE": "compute mode",
    "PROC": "processes on the GPUs",
    "PORT": "ports",
    "PREC": "precision",
    "NET": "network",
    "LIM": "limits of the user's session",
    "DISK": "disks and directories",
    "HEAL": "health of the hardware",
    "SYS": "load, memory, clocks",
    "SAME": "what must be equal on all hosts",
    "SCR": "the training script",
    "DEEP": "what GPUs and links do under load",
}


def render_heat_map(
    result: PreflightResult, anchors: frozenset[str], measured: frozenset[str] | None = None
) -> Iterator[str]:
    """Yield the section; a cell links to the findings of its worst code, where `anchors` has it.

    `measured` are the hosts of the deep checks, None where these have not run.
    """
    columns = families(result, deep=measured is not None)
    rows = heat_rows(result, columns, measured=measured or frozenset())
    yield "<h2>Hosts and checks</h2>"
    yield f'<p class="legend">{_legend(rows)}</p>'
    head = "".join(
        f'<th scope="col" title="{text(_NAMES.get(name, name))}">{text(name)}</th>' for name in columns
    )
    yield f'<table class="heat sortable"><thead><tr><th scope="col">host</th>{head}</tr></thead><tbody>'
    for row in rows:
        cells = "".join(_cell(cell, anchors) for cell in row.cells)
        yield f"<tr>{row_head(row.hosts)}{cells}</tr>"
    yield "</tbody></table>"
    names = "; ".join(f"<b>{text(name)}</b> {text(_NAMES.get(name, ''))}" for name in columns)
    yield f'<p class="soft">{names}.</p>'


def _legend(rows: tuple[HeatRow, ...]) -> str:
    """Return the states that occur, and always the best and the worst ones."""
    found = {cell.state for row in rows for cell in row.cells} | {PASS, CRITICAL, UNKNOWN}
    shown = [state for state in reversed(STATES) if state in found]
    keys = (f'<span><i class="key {_css(state)}">{state}</i> {STATE_WORDS[state]}</span>' for state in shown)
    return " ".join(keys)


def _cell(cell: HeatCell, anchors: frozenset[str]) -> str:
    """Return one cell; what passed has no title, of which a large fleet would have thousands."""
    if cell.state == PASS:
        return '<td class="p">P</td>'
    title = f"{STATE_WORDS[cell.state]}: {' '.join(cell.codes)}" if cell.codes else _why_none(cell.state)
    link = next((code for code in cell.codes if code in anchors), "")
    inner = f'<a href="#{text(link)}">{cell.state}</a>' if link else cell.state
    return f'<td class="{_css(cell.state)}" title="{text(title)}">{inner}</td>'


def _why_none(state: str) -> str:
    return STATE_WORDS[NOT_ASKED] if state == NOT_ASKED else "not checked: the host could not be used"


def _css(state: str) -> str:
    return state.lower()
