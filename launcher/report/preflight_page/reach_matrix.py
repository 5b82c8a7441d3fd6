"""Which host reaches which: the connects that the hosts made themselves, as a matrix."""

from collections.abc import Iterator, Sequence

from launcher.host_checks.evaluation import PreflightResult
from launcher.report.html.escape import text
from launcher.report.preflight_page.host_names import row_head
from launcher.text import counted
from preflight.facts.host import Reach
from preflight.frozen import dataclass

MOST_COLUMNS = 64
_MOST_FAILURES = 60
Target = tuple[str, int]
"""A host and a port of it."""


@dataclass(frozen=True, slots=True)
class ReachRow:
    """Hosts whose connects ended alike; of each target whether all were made, and the slowest and fastest."""

    hosts: tuple[str, ...]
    ways: tuple[tuple[bool, float, float] | None, ...]  # ok, least and most ms; None: not tested


def render_reach(result: PreflightResult, *, measures_pairs: bool = False) -> Iterator[str]:
    """Yield the section; nothing where no connect was made. `measures_pairs`: the page has deep checks."""
    if not result.reach:
        return
    mains = tuple(dict.fromkeys(each.to_host for each in result.reach))
    one = len(mains) == 1
    yield f"<h2>{f'Who reaches {text(mains[0])}' if one else 'Which host reaches which'}</h2>"
    failed = [each for each in result.reach if not each.ok]
    ways = counted(len({(each.from_host, each.to_host) for each in result.reach}), "way")
    yield (
        f'<p class="soft">{ways} tested by real connects between the hosts, {len(failed)} connects failed.'
        f" {_meaning(mains[0], measures_pairs=measures_pairs) if one else ''}"
        " An empty cell was not tested.</p>"
    )
    targets = tuple(dict.fromkeys((each.to_host, each.port) for each in result.reach))
    if len(targets) <= MOST_COLUMNS:
        yield from _matrix(result.reach, targets)
    yield from _failures(failed)


def _meaning(main: str, *, measures_pairs: bool) -> str:
    """Return what the connects to the main host say, and what they leave open."""
    rest = "the deep checks above measured" if measures_pairs else "gpulaunch preflight --deep measures"
    return (
        f"Ranks meet on {text(main)}: on the first port, and on one that its kernel chose, as NCCL uses them."
        f" These connects say nothing of the ways between the other hosts; {rest} pairs of hosts."
    )


def reach_rows(reach: Sequence[Reach], targets: Sequence[Target]) -> tuple[ReachRow, ...]:
    """Return the rows of the matrix, most failures first; hosts whose ways ended alike share one."""
    by_way: dict[str, dict[Target, list[Reach]]] = {}
    for each in reach:
        by_way.setdefault(each.from_host, {}).setdefault((each.to_host, each.port), []).append(each)
    groups: dict[tuple[bool | None, ...], list[str]] = {}
    for host, ways in by_way.items():
        pattern = tuple(all(each.ok for each in ways[to]) if to in ways else None for to in targets)
        groups.setdefault(pattern, []).append(host)
    rows = [
        ReachRow(tuple(hosts), tuple(_way(hosts, to, by_way) for to in targets))
        for _, hosts in sorted(groups.items(), key=lambda group: -sum(ok is False for ok in group[0]))
    ]
    return tuple(rows)


def _way(
    hosts: Sequence[str], to: Target, by_way: dict[str, dict[Target, list[Reach]]]
) -> tuple[bool, float, float] | None:
    tries = [each for host in hosts for each in by_way[host].get(to, ())]
    if not tries:
        return None
    made = [each.ms for each in tries if each.ok] or [0.0]
    return all(each.ok for each in tries), min(made), max(made)


def _matrix(reach: Sequence[Reach], targets: Sequence[Target]) -> Iterator[str]:
    head = "".join(f'<th scope="col">{text(name)}<br>port {port}</th>' for name, port in targets)
    head = f'<tr><th scope="col">from \\ to, ms</th>{head}</tr>'
    yield f'<div class="wide"><table class="reach"><thead>{head}</thead><tbody>'
    for row in reach_rows(reach, targets):
        yield f"<tr>{row_head(row.hosts)}{''.join(map(_cell, row.ways))}</tr>"
    yield "</tbody></table></div>"


def _cell(way: tuple[bool, float, float] | None) -> str:
    if way is None:
        return "<td></td>"
    ok, least, most = way
    if not ok:
        return '<td class="c">C</td>'
    return f'<td class="p">{_ms(least)}{"" if _ms(least) == _ms(most) else f"-{_ms(most)}"}</td>'


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _failures(failed: Sequence[Reach]) -> Iterator[str]:
    if not failed:
        return
    yield '<ul class="failures">'
    for each in failed[:_MOST_FAILURES]:
        where = f"{each.address} port {each.port}"
        yield f"<li>{text(each.from_host)} to {text(each.to_host)}, {text(where)}: {text(each.error)}</li>"
    if len(failed) > _MOST_FAILURES:
        yield f"<li>and {len(failed) - _MOST_FAILURES} more</li>"
    yield "</ul>"
