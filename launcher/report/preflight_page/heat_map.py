"""The heat map of a preflight page: kinds of hosts by families of checks, a colour and a letter each."""

from collections.abc import Iterator

from launcher.host_checks.result import PreflightResult
from launcher.report.html.escape import escape
from launcher.report.preflight_page.host_names import render_row_head
from launcher.text import group_alike
from preflight.checks.finding import Finding, Severity
from preflight.checks.registry import Check, parse_family
from preflight.checks.runner import load_checks
from preflight.facts.missing import Missing
from preflight.frozen import dataclass

PASS, INFO, NOT_COLLECTED, WARNING, UNKNOWN, CRITICAL = STATES = "PINWUC"
"""The letter of a cell, in rising order of how much it matters."""

STATE_WORDS = {
    CRITICAL: "critical",
    UNKNOWN: "unknown, could not be checked",
    WARNING: "warning",
    NOT_COLLECTED: "not asked of this source",
    INFO: "information",
    PASS: "passed",
}
STATE_OF_SEVERITY = {
    Severity.PASS: PASS,
    Severity.INFO: INFO,
    Severity.WARNING: WARNING,
    Severity.UNKNOWN: UNKNOWN,
    Severity.CRITICAL: CRITICAL,
}
_HOST, _DEEP = "HOST", "DEEP"
FAMILY_NAMES = {
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
    "SHARD": "DeepSpeed's and FSDP's settings",
    "DEEP": "what GPUs and links do under load",
}


@dataclass(frozen=True, slots=True)
class HeatCell:
    """What one family of checks says of a host: the worst verdict, and the codes that say something."""

    state: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeatRow:
    """Hosts of which all families say the same."""

    hosts: tuple[str, ...]
    cells: tuple[HeatCell, ...]


def list_families(result: PreflightResult, *, deep: bool = False) -> tuple[str, ...]:
    """Return the families that were judged, in the order of the table; `deep`: the deep checks ran."""
    judged = [
        parse_family(check.code) for check in load_checks().values() if _was_judged(check, result, deep=deep)
    ]
    reported = [parse_family(finding.code) for finding in result.findings]
    rest = [family for family in reported if family != _HOST]
    return tuple(dict.fromkeys([*([_HOST] if result.errors else []), *judged, *rest]))


def build_heat_rows(
    result: PreflightResult, columns: tuple[str, ...], *, measured: frozenset[str] = frozenset()
) -> tuple[HeatRow, ...]:
    """Return a row for each kind of host, those with the most and worst verdicts first.

    `measured` are the hosts of the deep checks; they say nothing of another one.
    """
    without = _unasked(result)

    def cells(name: str) -> tuple[HeatCell, ...]:
        unasked = without if name in measured else without | {_DEEP}
        return tuple(_cells(result.list_findings(name), columns, unasked, answered=name in result.facts))

    alike = group_alike((cells(entry.name), entry.name) for entry in result.entries)
    rows = (HeatRow(hosts, cells) for cells, hosts in alike.items())
    return tuple(sorted(rows, key=_weight, reverse=True))


def _was_judged(check: Check, result: PreflightResult, *, deep: bool) -> bool:
    if check.gpu_only and not result.job.wants_gpus:
        return False
    if check.scope != "cluster":
        return check.scope == "host" or deep
    if result.would_use is None:  # the hosts were judged each for itself
        return False
    if parse_family(check.code) == "SCR":
        return result.script is not None or bool(result.job.script or result.job.module)
    if parse_family(check.code) == "SHARD":
        return result.job.deepspeed is not None or bool(result.job.accelerate_config)
    return len(result.entries) > 1


def _unasked(result: PreflightResult) -> frozenset[str]:
    """Return the families of which a check has had no facts to judge."""
    codes = list(result.not_collected)
    main = result.facts.get(result.entries[0].name) if result.entries else None
    if main is None or isinstance(main.script, Missing) or isinstance(main.script.text, Missing):
        codes.append("SCR001")
    return frozenset(map(parse_family, codes))


def _cells(
    findings: tuple[Finding, ...], columns: tuple[str, ...], unasked: frozenset[str], *, answered: bool
) -> Iterator[HeatCell]:
    by_family = group_alike((parse_family(finding.code), finding) for finding in findings)
    for family in columns:
        of_family = by_family.get(family, ())
        states = [INFO if each.ignored else STATE_OF_SEVERITY[each.severity] for each in of_family]
        if not answered and family != _HOST:
            states.append(UNKNOWN)
        elif family in unasked:
            states.append(NOT_COLLECTED)
        worst = max(states, key=STATES.index, default=PASS)
        codes = sorted(of_family, key=lambda each: -STATES.index(STATE_OF_SEVERITY[each.severity]))
        yield HeatCell(worst, tuple(dict.fromkeys(each.code for each in codes)))


def _weight(row: HeatRow) -> tuple[int, ...]:
    """Return how many cells a row has of each state, the worst first."""
    states = [cell.state for cell in row.cells]
    return tuple(states.count(state) for state in reversed(STATES[2:]))


def render_heat_map(
    result: PreflightResult, anchors: frozenset[str], measured: frozenset[str] | None = None
) -> Iterator[str]:
    """Yield the section; a cell links to the findings of its worst code, where `anchors` has it.

    `measured` are the hosts of the deep checks, None where these have not run.
    """
    columns = list_families(result, deep=measured is not None)
    rows = build_heat_rows(result, columns, measured=measured or frozenset())
    yield "<h2>Hosts and checks</h2>"
    yield f'<p class="legend">{_legend(rows)}</p>'
    head = "".join(
        f'<th scope="col" title="{escape(FAMILY_NAMES.get(name, name))}">{escape(name)}</th>'
        for name in columns
    )
    yield f'<table class="heat sortable"><thead><tr><th scope="col">host</th>{head}</tr></thead><tbody>'
    for row in rows:
        cells = "".join(_cell(cell, anchors) for cell in row.cells)
        yield f"<tr>{render_row_head(row.hosts)}{cells}</tr>"
    yield "</tbody></table>"
    names = "; ".join(f"<b>{escape(name)}</b> {escape(FAMILY_NAMES.get(name, ''))}" for name in columns)
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
    inner = f'<a href="#{escape(link)}">{cell.state}</a>' if link else cell.state
    return f'<td class="{_css(cell.state)}" title="{escape(title)}">{inner}</td>'


def _why_none(state: str) -> str:
    return STATE_WORDS[NOT_COLLECTED] if state == NOT_COLLECTED else "not checked: the host could not be used"


def _css(state: str) -> str:
    return state.lower()
