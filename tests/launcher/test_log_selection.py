"""Which lines of which ranks `logs` shows, and which hosts it asks."""

from functools import partial

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import ConnectionRefused, HostError
from launcher.runs import logs
from launcher.runs.access import RunAccess, open_heard
from launcher.runs.logs import LogSelection, _KeptLines, parse_since, show_logs
from launcher.transports.base import Connection
from preflight.errors import BadInput
from tests.launcher.found_runs import PLAN, A, B


@pytest.mark.parametrize(
    ("word", "since"),
    [
        ("10m", {"seconds": 600.0}),
        ("1.5h", {"seconds": 5400.0}),
        ("4096", {"seconds": 4096.0}),
        ("4096B", {"bytes": 4096.0}),
        ("64kB", {"bytes": 64e3}),
    ],
)
def test_since_is_a_time_ago_or_bytes(word: str, since: dict[str, float]) -> None:
    assert parse_since(word) == since


@pytest.mark.parametrize("word", ["", "ten", "-5", "10M", "5 m"])
def test_since_is_nothing_else(word: str) -> None:
    with pytest.raises(BadInput, match="neither"):
        parse_since(word)


def test_who_looks_once_asks_no_host_again_that_was_silent_just_now() -> None:
    opened: list[str] = []

    def refuse(entry: HostEntry) -> Connection:
        opened.append(entry.name)
        raise ConnectionRefused(entry.name, "it refused")

    to = RunAccess(PLAN, (A, B), (), partial(open_heard, {"b": HostError("b", "no answer")}, refuse))
    shown = show_logs(to, LogSelection(), lambda *_: None)
    assert (dict(shown.lost)["b"], set(opened)) == ("no answer", {"a"})
    assert shown.lost["a"] == "it refused", "its name stands in front already"


def test_who_follows_is_told_once_that_a_link_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def refuse(entry: HostEntry) -> Connection:
        raise ConnectionRefused(entry.name, "it refused")

    monkeypatch.setattr(logs, "PATIENCE_S", 0.5)
    to = RunAccess(PLAN, (A, B), (), refuse)
    shown = show_logs(to, LogSelection(follow=True), lambda *_: None, said.append)
    assert shown.lost.keys() == {"a", "b"}
    then = "reconnecting; the run continues on the host, if it lives"
    assert sorted(said) == [f"{host}: connection lost (it refused); {then}" for host in ("a", "b")]


@pytest.mark.parametrize(
    ("selection", "short"),
    [
        (LogSelection(since={"lines": 5}), True),
        (LogSelection(since={"lines": 10**6}), False),
        (LogSelection(since={"lines": 5}, follow=True), False),
        (LogSelection(since={"bytes": 5}), False),
        (LogSelection(), False),
    ],
)
def test_a_few_last_lines_are_shown_in_the_order_of_the_ranks(
    selection: LogSelection, *, short: bool
) -> None:
    assert selection.is_short(PLAN) is short
    shown: list[tuple[str, str, bytes]] = []
    kept = _KeptLines([(node.host, log) for node in PLAN.nodes for log in selection.list_logs(node)])
    for host, log, data in (("b", "rank-2.log", b"2"), ("a", "rank-0.log", b"0"), ("b", "rank-2.log", b"3")):
        kept.add(host, log, data, 0.0)
    kept.give_to(lambda host, log, data, _now: shown.append((host, log, data)))
    assert shown == [("a", "rank-0.log", b"0"), ("b", "rank-2.log", b"23")]


def test_a_rank_is_on_one_node_and_a_rank_that_is_not_is_refused() -> None:
    assert [node.host for node in LogSelection(rank=2).nodes(PLAN)] == ["b"]
    assert LogSelection(rank=2).list_logs(PLAN.nodes[1]) == ["rank-2.log"]
    assert LogSelection().list_logs(PLAN.nodes[1]) == ["launcher.log", "rank-1.log", "rank-2.log"]
    with pytest.raises(BadInput, match="ranks 0 to 2"):
        LogSelection(rank=3).nodes(PLAN)
    with pytest.raises(BadInput, match="on a,b"):
        LogSelection(host="c").nodes(PLAN)
