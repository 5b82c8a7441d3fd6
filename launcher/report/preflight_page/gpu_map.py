"""The GPUs of a preflight page as squares: how much memory is in use, and which of them have a finding."""

from collections.abc import Iterator

from launcher.host_checks.result import PreflightResult
from launcher.report.html.escape import escape
from launcher.report.preflight_page.host_names import render_row_head
from launcher.text import count_alike, count_noun, format_memory, group_alike
from preflight.checks.finding import Severity
from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from preflight.frozen import dataclass

_STEPS = (5, 25, 50, 75)  # percent of memory in use from which on a square has the next colour
_BAD = (Severity.CRITICAL, Severity.UNKNOWN)


@dataclass(frozen=True, slots=True)
class GpuSquare:
    """One GPU; `used` is the share of its memory in percent, None where it could not be read."""

    index: int
    name: str
    used: int | None
    total_mib: int
    bad: bool  # a critical or unknown finding is about it


def render_gpu_map(result: PreflightResult) -> Iterator[str]:
    """Yield the section: a row for each kind of host, those with findings first."""
    rows = build_gpu_rows(result)
    if not any(squares for squares, _ in rows):
        return
    yield "<h2>GPUs</h2>"
    keys = "".join(
        f'<span><i class="key m{place}"></i> {words}</span>' for place, words in enumerate(_words())
    )
    yield f'<p class="legend">memory in use: {keys} <span><i class="key u">?</i> not read</span>'
    yield '<span><i class="key m0 bad">0!</i> has a critical or unknown finding</span></p>'
    yield '<table class="gpus"><tbody>'
    for squares, hosts in rows:
        shown = "".join(map(_square, squares)) or '<span class="soft">no GPU</span>'
        yield f"<tr>{render_row_head(hosts)}<td>{_models(squares)}{shown}</td></tr>"
    yield "</tbody></table>"
    unread = [name for name, facts in result.facts.items() if isinstance(facts.gpus, Missing)]
    if unread:
        yield f'<p class="soft">The GPUs of {count_noun(len(unread), "host")} could not be read.</p>'


def build_gpu_rows(result: PreflightResult) -> list[tuple[tuple[GpuSquare, ...], tuple[str, ...]]]:
    """Return the squares of each kind of host and its hosts; the most bad GPUs first, then the fullest."""

    def squares(name: str, gpus: tuple[Gpu, ...]) -> tuple[GpuSquare, ...]:
        bad = {f.subject for f in result.list_findings(name) if f.severity in _BAD and not f.ignored}
        return tuple(_of(gpu, bad) for gpu in gpus)

    known = ((name, facts.gpus) for name, facts in result.facts.items())
    rows = group_alike((squares(name, gpus), name) for name, gpus in known if not isinstance(gpus, Missing))
    return sorted(rows.items(), key=lambda row: _weight(row[0]), reverse=True)


def _of(gpu: Gpu, bad: set[str]) -> GpuSquare:
    known = None if isinstance(gpu.memory, Missing) else gpu.memory
    return GpuSquare(
        index=gpu.index,
        name="GPU of unknown model" if isinstance(gpu.name, Missing) else gpu.name,
        used=round(100 * known.used_mib / gpu.total_mib) if known and gpu.total_mib else None,
        total_mib=gpu.total_mib or 0,
        bad=f"gpu{gpu.index}" in bad,
    )


def _weight(squares: tuple[GpuSquare, ...]) -> tuple[int, int, int]:
    return (
        sum(each.bad for each in squares),
        sum(each.used is None for each in squares),
        sum(each.used or 0 for each in squares),
    )


def _models(squares: tuple[GpuSquare, ...]) -> str:
    models = count_alike([each.name for each in squares])
    return f'<span class="model">{escape(models)}</span>' if models else ""


def _square(gpu: GpuSquare) -> str:
    mark = " bad" if gpu.bad else ""
    sign = "!" if gpu.bad else ""
    if gpu.used is None:
        title = f"gpu{gpu.index} {gpu.name}: memory not read"
        return f'<span class="square u{mark}" title="{escape(title)}">?{sign}</span>'
    step = sum(gpu.used >= at for at in _STEPS)
    title = f"gpu{gpu.index} {gpu.name}: {gpu.used} % of {format_memory(gpu.total_mib)} in use"
    return f'<span class="square m{step}{mark}" title="{escape(title)}">{gpu.used}{sign}</span>'


def _words() -> Iterator[str]:
    for low, high in zip((0, *_STEPS), (*_STEPS, None), strict=True):
        yield f"below {high} %" if high is not None and not low else f"from {low} %"
