"""Which host reaches which: the connects that the hosts made themselves, as a matrix."""

from collections.abc import Iterator, Sequence

from launcher.host_checks.result import PreflightResult
from launcher.report.html.escape import escape
from launcher.report.preflight_page.host_names import render_hosts, render_row_head
from launcher.text import count_noun, group_alike
from preflight.facts.host import Reach
from preflight.frozen import dataclass

MOST_COLUMNS = 64
_MOST_FAILURES = 60
Target = tuple[str, int]  # a host and a port of it
Column = tuple[Target, ...]  # targets of which all connects ended alike


@dataclass(frozen=True, slots=True)
class ReachRow:
    """Hosts whose connects ended alike; of each target whether all were made, and the slowest and fastest."""

    hosts: tuple[str, ...]
    connections: tuple[tuple[bool, float, float] | None, ...]  # ok, least and most ms; None: not tested


def render_reach(result: PreflightResult, *, measures_pairs: bool = False) -> Iterator[str]:
    """Yield the section; nothing where no connect was made. `measures_pairs`: the page has deep checks."""
    if not result.reach:
        return
    mains = tuple(dict.fromkeys(each.to_host for each in result.reach))
    one = len(mains) == 1
    yield f"<h2>{f'Who reaches {escape(mains[0])}' if one else 'Which host reaches which'}</h2>"
    failed = [each for each in result.reach if not each.ok]
    tried = count_noun(len({(each.from_host, each.to_host) for each in result.reach}), "way")
    yield (
        f'<p class="soft">{tried} tested by real connects between the hosts, {len(failed)} connects failed.'
        f" {_meaning(mains[0], measures_pairs=measures_pairs) if one else ''}"
        " An empty cell was not tested.</p>"
    )
    columns = reach_columns(result.reach)
    if len(columns) <= MOST_COLUMNS:
        yield from _matrix(result.reach, columns)
    yield from _failures(failed)


def _meaning(main: str, *, measures_pairs: bool) -> str:
    """Return what the connects to the main host say, and what they leave open."""
    rest = "the deep checks above measured" if measures_pairs else "gpulaunch preflight --deep measures"
    return (
        f"Ranks meet on {escape(main)}: on the first port, and on one that its kernel chose, as NCCL uses"
        f" them. Of many hosts only these ways are tried; {rest} pairs of hosts."
    )


def reach_columns(reach: Sequence[Reach]) -> tuple[Column, ...]:
    """Return the columns: each port of the main host, and other hosts that are reached alike."""
    main, senders = reach[0].to_host, dict.fromkeys(each.from_host for each in reach)
    ok: dict[Target, dict[str, bool]] = {}
    for each in reach:
        tries = ok.setdefault((each.to_host, each.port), {})
        tries[each.from_host] = tries.get(each.from_host, True) and each.ok

    def pattern(target: Target) -> object:
        # No host connects to itself: its own cell is like any other.
        alike = tuple(sender == target[0] or ok[target].get(sender) for sender in senders)
        return target if target[0] == main else alike

    return tuple(group_alike((pattern(target), target) for target in ok).values())


def reach_rows(reach: Sequence[Reach], columns: Sequence[Column]) -> tuple[ReachRow, ...]:
    """Return the rows of the matrix, most failures first; hosts whose ways ended alike share one."""
    place = {target: at for at, column in enumerate(columns) for target in column}
    by_host: dict[str, dict[int, list[Reach]]] = {}
    for each in reach:
        at = place[each.to_host, each.port]
        by_host.setdefault(each.from_host, {}).setdefault(at, []).append(each)
    places = range(len(columns))
    groups = group_alike(
        (tuple(all(each.ok for each in tries[at]) if at in tries else None for at in places), host)
        for host, tries in by_host.items()
    )
    ordered = sorted(groups.items(), key=lambda group: -sum(ok is False for ok in group[0]))
    return tuple(
        ReachRow(
            hosts,
            tuple(
                _connection([each for host in hosts for each in by_host[host].get(at, ())]) for at in places
            ),
        )
        for _, hosts in ordered
    )


def _connection(tries: Sequence[Reach]) -> tuple[bool, float, float] | None:
    if not tries:
        return None
    made = [each.ms for each in tries if each.ok] or [0.0]
    return all(each.ok for each in tries), min(made), max(made)


def _matrix(reach: Sequence[Reach], columns: Sequence[Column]) -> Iterator[str]:
    main = reach[0].to_host
    head = "".join(f'<th scope="col">{_head(column, main)}</th>' for column in columns)
    head = f'<tr><th scope="col">from \\ to, ms</th>{head}</tr>'
    yield f'<div class="wide"><table class="reach"><thead>{head}</thead><tbody>'
    for row in reach_rows(reach, columns):
        yield f"<tr>{render_row_head(row.hosts)}{''.join(map(_cell, row.connections))}</tr>"
    yield "</tbody></table></div>"


def _head(column: Column, main: str) -> str:
    names = [name for name, _ in column]
    port = f"port {column[0][1]}" if names[0] == main else "a port of their own"
    return f"{render_hosts(names)}<br>{port}"


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
    """Yield the failed connects in words: those to one port together, then those of one host."""
    if not failed:
        return
    to_port = group_alike(
        ((each.to_host, f"{each.address} port {each.port}", each.error), each.from_host) for each in failed
    )
    lines: list[str] = []
    from_one: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (to_host, where, error), hosts in to_port.items():
        if len(hosts) > 1:
            lines.append(f"{render_hosts(hosts)} to {escape(to_host)}, {escape(where)}: {escape(error)}")
        else:
            from_one.setdefault((hosts[0], error), []).append((to_host, where))
    for (host, error), targets in from_one.items():
        names = render_hosts(dict.fromkeys(name for name, _ in targets))
        where = f", {escape(targets[0][1])}" if len(targets) == 1 else ""
        lines.append(f"{escape(host)} to {names}{where}: {escape(error)}")
    yield '<ul class="failures">'
    yield from (f"<li>{line}</li>" for line in lines[:_MOST_FAILURES])
    if len(lines) > _MOST_FAILURES:
        yield f"<li>and {len(lines) - _MOST_FAILURES} more</li>"
    yield "</ul>"
