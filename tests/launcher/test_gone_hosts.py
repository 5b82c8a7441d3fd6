"""Hosts that are known by launches alone and have vanished: asked once more, then named, then forgotten."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.commands._host_access import HostAccess
from launcher.commands._run_options import FoundRunOptions, find_run
from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import AgentTimedOut, ConnectionTimedOut, HostError
from launcher.follow.outcome import Outcome
from launcher.follow.restart_history import RestartHistory, StartRecord
from launcher.launch.launch import note_clean_end
from launcher.planning import run_record
from launcher.planning.run_record import build_run_record, note_in_record, read_run_records, save_run_record
from launcher.runs import search
from launcher.runs.gone_hosts import describe_gone, list_gone_hosts, list_unseen, note_answers, note_end
from launcher.transports.base import Connection
from tests.launcher.found_runs import PLAN, A, B, found, node_run, over
from tests.launcher.restart_cases import ended
from tests.launcher.run_plans import RUN_ID, plan
from tests.users import User

BOTH = frozenset("ab")
NO_ANSWER = ConnectionTimedOut("a", "no answer")
KEPT = {"kept": True}
AGAIN = "r2-20261122-104600-0a1b2d"


def start_again(fields: dict[str, Any], by: str) -> dict[str, Any]:
    return {**fields, "next": {"state": "restarted", "run_id": by}}


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def remember(*, at: float = 1.0, over: bool = False, silent: tuple[str, ...] = ()) -> None:
    save_run_record({**build_run_record(PLAN, PLAN.nodes[0], (A, B)), "at": at})
    note_in_record(RUN_ID, over=over, silent=silent)


@pytest.mark.parametrize(
    ("shown", "answered", "errors", "expected"),
    [
        ([over(), over(node_rank=1)], BOTH, {}, True),
        ([over(), node_run(node_rank=1)], BOTH, {}, False),  # a node of it runs
        ([over()], {"a"}, {"b": NO_ANSWER}, False),  # its other node is not heard
        ([over(), {**over(node_rank=1), **KEPT}], BOTH, {}, False),  # it waits for a restart
        ([over(), node_run(node_rank=1, alive=False)], BOTH, {}, False),  # lost
        ([start_again(over(), AGAIN), over(node_rank=1)], BOTH, {}, False),  # by one that is not shown
        ([], BOTH, {}, True),  # nothing of it lives
        ([over()], BOTH, {}, True),  # the other half was removed, by prune a
        ([node_run()], BOTH, {}, False),
        ([], {"a"}, {"b": NO_ANSWER}, False),
        ([node_run("r2")], BOTH, {}, False),  # perhaps a later start of it, that a host has made
    ],
)
def test_a_launch_is_over_once_all_of_its_hosts_have_said_so(
    *, shown: list[dict[str, Any]], answered: set[str], errors: dict[str, HostError], expected: bool
) -> None:
    remember()
    by_host = [
        (entry, [each for each in shown if each["spec"]["node_rank"] == n]) for n, entry in enumerate((A, B))
    ]
    records = read_run_records()
    runs = [replace(run, record=records[RUN_ID]).with_answers(answered, 1e9) for run in found(*by_host)]
    note_answers(records, runs, answered=answered, errors=errors, complete=True)
    assert read_run_records()[RUN_ID].over is expected


@pytest.mark.parametrize(
    ("over", "seen", "silent", "expected"),
    [
        (False, set(), "b", [RUN_ID]),
        (False, {RUN_ID}, "b", []),  # its other node has reported it
        (False, set(), "c", []),
        (True, set(), "b", []),
    ],
)
def test_a_launch_whose_host_is_silent_is_named_unless_it_is_known_to_be_over(
    *, over: bool, seen: set[str], silent: str, expected: list[str]
) -> None:
    remember(over=over)
    assert list_unseen(read_run_records(), seen, {silent: NO_ANSWER}) == expected


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ended("finished"), True),
        (ended("failed"), True),
        (
            ended("failed", restarts=RestartHistory(1, (), "all used up")),
            False,
        ),  # its host may start it again
        (ended("finished", restarts=RestartHistory(1, (), "")), True),
        (ended("finished", lost={"b": "no answer"}), False),
        (ended("detached"), False),
    ],
)
def test_a_client_that_saw_the_end_notes_it(*, outcome: Outcome, expected: bool) -> None:
    remember()
    note_end(outcome)
    assert read_run_records()[RUN_ID].over is expected


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ended("interrupted"), True),
        (ended("failed", lost={"b": "no answer"}), False),
        (ended("detached"), False),
    ],
)
def test_a_measurement_or_rehearsal_that_left_nothing_is_not_asked_for_again(
    *, outcome: Outcome, expected: bool
) -> None:
    remember()
    note_clean_end(outcome)
    assert read_run_records()[RUN_ID].over is expected


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({"lost_hosts": {}, "remaining_pids": {}}, True),
        ({"lost_hosts": {"b": "no answer"}, "remaining_pids": {}}, False),
        ({"lost_hosts": {}, "remaining_pids": {"a": [7]}}, False),
        ({}, False),
    ],
)
def test_a_start_that_was_given_up_with_a_host_is_not_over_because_the_next_one_finished(
    tmp_path: Path, kept: dict[str, Any], *, expected: bool
) -> None:
    remember()
    (tmp_path / "outcome.json").write_text(json.dumps(kept))
    first = StartRecord(
        RUN_ID, "aborted", 5, "b was lost", ("", "", ""), 2, "no", ("a", "b"), 9.0, str(tmp_path)
    )
    outcome = ended("finished", restarts=RestartHistory(1, (first,), ""))
    note_end(replace(outcome, plan=replace(outcome.plan, run_id=AGAIN)))
    assert read_run_records()[RUN_ID].over is expected
    assert list_unseen(read_run_records(), set(), {"b": NO_ANSWER}) == [RUN_ID] * (not expected)


def test_a_look_at_some_of_its_hosts_leaves_a_launch_over_that_all_have_called_so() -> None:
    remember(over=True)
    note_answers(read_run_records(), found((A, [over()])), answered={"a"}, errors={}, complete=False)
    assert read_run_records()[RUN_ID].over


def test_a_launch_that_lives_again_or_may_not_have_arrived_is_not_over() -> None:
    remember(over=True)
    runs = found((A, [node_run()]), (B, [node_run(node_rank=1)]))
    note_answers(read_run_records(), runs, answered=BOTH, errors={}, complete=True)
    assert not read_run_records()[RUN_ID].over
    remember(at=4e9)
    note_answers(read_run_records(), (), answered=BOTH, errors={}, complete=True)
    assert not read_run_records()[RUN_ID].over
    remember()
    note_answers(
        read_run_records(), (), answered=BOTH, errors={}, complete=False
    )  # another run was asked for
    assert not read_run_records()[RUN_ID].over


@pytest.mark.parametrize(
    ("was_over", "error", "gone"),
    [
        (True, NO_ANSWER, ("a",)),
        (True, AgentTimedOut("a", "slow"), ()),  # the machine is still up
        (False, NO_ANSWER, ()),  # its run may live
    ],
)
def test_a_host_is_gone_that_is_silent_after_all_of_its_launches(
    *, was_over: bool, error: HostError, gone: tuple[str, ...]
) -> None:
    remember(over=was_over)
    note_answers(read_run_records(), (), answered={"b"}, errors={"a": error}, complete=True)
    assert list_gone_hosts(read_run_records().values(), ()) == gone
    assert list_gone_hosts(read_run_records().values(), {"a"}) == ()  # hosts.yaml says that it exists
    note_answers(read_run_records(), (), answered=BOTH, errors={}, complete=True)
    assert list_gone_hosts(read_run_records().values(), ()) == ()


def test_a_new_launch_on_a_gone_host_is_asked_for() -> None:
    remember(over=True, silent=("a", "b"))
    newer = replace(PLAN, run_id=AGAIN)
    save_run_record(build_run_record(newer, newer.nodes[0], (A, B)))
    assert list_gone_hosts(read_run_records().values(), ()) == ()


@pytest.mark.slow
def test_ps_fails_where_no_host_but_this_machine_answers(tmp_path: Path) -> None:
    user = User(tmp_path / "home")
    listed = tmp_path / "hosts.yaml"
    for hosts, code in (("{a: {address: 127.0.0.1, port: 1}}", 3), ("{}", 0)):
        listed.write_text(f"hosts: {hosts}\n")
        assert user.gpulaunch("ps", "-i", str(listed)).returncode == code, hosts


@pytest.mark.slow
def test_a_vanished_host_is_asked_once_then_named_and_no_more_once_it_is_forgotten(tmp_path: Path) -> None:
    user = User(tmp_path / "home")
    vanished = HostEntry("a", address="127.0.0.1", port=1)
    own = plan((None,))
    save_run_record(build_run_record(own, own.nodes[0], (vanished,)))
    note_in_record(RUN_ID, over=True)
    user.env["XDG_STATE_HOME"] = str(tmp_path)
    forget = "gpulaunch prune a --forget"
    first, second = (user.gpulaunch("ps").stderr for _ in range(2))
    assert forget in first
    assert "refused" in first, first
    assert "refused" not in second
    assert "what was launched on them from this machine is over" in second
    assert forget in second
    assert "refused" in user.gpulaunch("ps", "--all").stderr
    assert "refused" in user.gpulaunch("logs", RUN_ID).stderr  # which is named
    assert user.gpulaunch(*forget.split()[1:], "--yes").returncode == 0
    assert user.gpulaunch("ps").stderr == ""
    assert not read_run_records()


def test_a_launch_that_is_also_on_another_host_is_not_forgotten(tmp_path: Path) -> None:
    remember(over=True)
    user = User(tmp_path / "home")
    user.env["XDG_STATE_HOME"] = str(tmp_path)
    done = user.gpulaunch("prune", "a", "--forget", "--yes")
    assert f"{RUN_ID} is kept, it is on a,b: name all of them" in done.stderr
    assert RUN_ID in read_run_records()


def test_many_hosts_are_forgotten_with_one_short_command() -> None:
    command = "gpulaunch prune 'n[01-24]' --forget"
    assert describe_gone([f"n{number:02}" for number in range(1, 25)]).endswith(command)


@pytest.mark.parametrize(
    ("word", "listed", "asked", "renamed"),
    [
        (RUN_ID, "c", {"a", "b"}, "where a has a new name or address, list it under a in hosts.yaml"),
        (RUN_ID, "a", {"a", "b"}, ""),  # it is a that does not answer, and it is listed
        ("last", "c", {"a", "b", "c", "localhost"}, ""),
    ],
)
def test_a_whole_run_id_is_looked_for_on_the_hosts_of_its_launch_alone(
    word: str, listed: str, asked: set[str], renamed: str
) -> None:
    remember()
    opened: set[str] = set()

    def open_entry(entry: HostEntry) -> Connection:
        opened.add(entry.name)
        raise ConnectionTimedOut(entry.name, "no answer")

    access = HostAccess(Inventory(hosts={listed: HostEntry(listed)}), open_entry, 4)
    options = FoundRunOptions(
        inventory=None, identity_file=None, accept_new_host_keys=False, parallel=4, hosts=()
    )
    with pytest.raises(ConnectionTimedOut) as caught:
        find_run(word, access, options)
    assert opened == asked
    assert caught.value.fix.endswith(renamed or "through a jump host: `jump:`")


def test_a_launch_whose_end_was_not_seen_outlives_hundreds_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record, "MAX_RECORDS", 2)
    document = build_run_record(PLAN, PLAN.nodes[0], (A, B))
    ids = [f"s-20261122-10460{n}-0a1b2d" for n in range(6)]
    for run_id in ids:
        save_run_record({**document, "run_id": run_id})
        note_in_record(run_id, over=run_id != ids[1])
    assert set(read_run_records()) == {ids[1], *ids[-2:]}
    monkeypatch.setattr(run_record, "_MAX_UNSEEN", 2)  # hosts that are gone never say that it is over
    save_run_record({**document, "run_id": ids[5]})
    assert set(read_run_records()) == set(ids[-2:])


@pytest.mark.parametrize("elsewhere", [{}, {"login-02": [RUN_ID]}])
def test_a_launch_that_its_hosts_have_in_their_home_as_anothers_may_live(
    monkeypatch: pytest.MonkeyPatch, elsewhere: dict[str, list[str]]
) -> None:
    remember()
    answer = {"runs": [], "host": "login-01", "t": 1.0, "other_hosts": elsewhere}
    monkeypatch.setattr(search, "send_request", lambda *_, **__: dict(answer))
    search.search_all([A, B], lambda _: nullcontext(), width=2)  # type: ignore[arg-type,return-value]
    assert read_run_records()[RUN_ID].over is (not elsewhere)
