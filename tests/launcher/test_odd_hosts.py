"""One odd host is no other's matter: whatever it sends, each reader gives a value or an error of ours."""

import copy
import io
import json
import queue
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.cleanup.clean import parse_kill_results
from launcher.commands.stacks import request_stacks
from launcher.errors import AgentProtocolError, GpulaunchError, HostError
from launcher.follow.events import (
    Disconnected,
    HostEnded,
    HostLost,
    HostReport,
    HostStarted,
    LogOutput,
    RunEvent,
    StartRefused,
)
from launcher.follow.log_offsets import MAX_LOGS, ResumePoint
from launcher.follow.node_client import NodeClient
from launcher.follow.outcome import build_outcome
from launcher.follow.run_state import RunState
from launcher.launch.reporter import RunReporter
from launcher.onhost.answer import MARKER as ANSWER_MARKER
from launcher.planning.run_record import RunRecord, build_run_record, read_record
from launcher.rehearsal.verdict import evaluate_rehearsal
from launcher.remote.agent import decode_document
from launcher.remote.reachability import ProbeTargets, probe_from
from launcher.remote.rpc import find_answer
from launcher.report.html.page import render_page
from launcher.report.outcome import encode_outcome, render_outcome
from launcher.report.summary import encode_summary, render_summary
from launcher.restart.checkpoints import parse_checkpoints
from launcher.rundir.event_schema import validate_event
from launcher.rundir.layout import read_run
from launcher.rundir.log_store import LogStore
from launcher.rundir.state_schema import validate_runs, validate_state
from launcher.runs.expected_run import select_run
from launcher.runs.fetch import FileReceiver, _receive
from launcher.runs.merged_runs import merge_node_runs
from launcher.runs.render import encode_runs, render_runs
from launcher.runs.request import request_state, send_request
from launcher.runs.stop import stop_run
from launcher.scaffold.interpreters import parse_environments
from launcher.sync.host import SyncClient as SyncReceiver
from launcher.terminal.screen import Screen
from launcher.transports.base import CommandResult
from preflight.checks.runner import check_cluster, check_host
from preflight.job import Expect, Job
from tests.launcher.garbage import JSON, mutated
from tests.launcher.odd_hosts import LIST, PLAN, RUN, STATE, A, B, Host, Sent, followed, frames, only_ours
from tests.preflight.golden_cases import _base


@given(JSON | mutated(LIST))
def test_runs_that_hosts_tell_of(answer: Any) -> None:
    def read() -> None:
        reply = send_request(Host(frames(answer)), "python3", {"mode": "list"})
        listed, _ = validate_runs(reply)
        runs = merge_node_runs([(A, listed, 9.0), (B, {"runs": [copy.deepcopy(RUN)], "t": 9.0}, 9.0)]).runs
        json.dumps(encode_runs(runs, {}))
        assert "\x1b" not in "".join(map(str, render_runs(runs, 9.0)))
        select_run(runs, "last")

    only_ours(read)


@given(JSON | mutated(build_run_record(PLAN, PLAN.nodes[0], (A, B))))
def test_records_of_launches(record: Any) -> None:
    assert isinstance(only_ours(lambda: read_record(record)), RunRecord | GpulaunchError)
    odd = {**copy.deepcopy(RUN), "spec": {**RUN["spec"], "launch": record}}  # type: ignore[dict-item]
    listed, _ = validate_runs({"runs": [odd], "t": 9.0})
    only_ours(lambda: select_run(merge_node_runs([(A, listed, 9.0), (B, listed, 9.0)]).runs, "last"))


@given(JSON | mutated({"state": STATE, "alive": False, "t": 1.0}))
def test_how_a_run_that_was_stopped_stands(answer: Any) -> None:
    def read() -> None:
        from launcher.commands.stop import explain_answer  # noqa: PLC0415 - a command

        words, code = explain_answer(
            request_state(Host(frames(answer)), "python3", {"mode": "stop", "run_id": "r"})
        )
        assert (bool(words), code in (0, 1, 3), "\x1b" in words) == (True, True, False)

    only_ours(read)


@given(JSON | mutated({"stacks": {"stacks-rank-0.log": "Thread 1\n"}, "t": 1.0}))
def test_stacks(answer: Any) -> None:
    _, errors = request_stacks(PLAN, (A, B), lambda _: Host(frames(answer)))
    assert all(isinstance(error, HostError) for error in errors.values())


PIECE = {"file": "output/m", "offset": 0, "whole": 4, "mtime_ns": 5, "grows": False, "size": 4}
END = {"end": {}, "skipped": [["output/x", "denied"]], "t": 1.0}


@given(st.lists(mutated({"lacks": 7}) | mutated(PIECE) | mutated(END) | JSON, max_size=4))
@settings(max_examples=60)
def test_files_that_are_fetched(sent: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        receiver, expected = FileReceiver(top / "a"), list[int]()
        only_ours(lambda: _receive("a", Sent(frames({"state": {}}, *sent)), receiver, expected.append))
        receiver.close()
        assert all(isinstance(count, int) for count in expected)
        assert {path.name for path in top.iterdir()} <= {"a"}
        receiver.missing()


ANSWER = {"state": STATE, "alive": True, "sizes": {"rank-0.log": 4}, "t": 1.0}
LOG = {"log": "rank-0.log", "offset": 0, "size": 4}


@given(JSON | mutated(ANSWER), st.lists(mutated(LOG) | mutated({"end": STATE, "t": 1.0}) | JSON, max_size=4))
@settings(max_examples=60)
def test_a_run_that_is_followed(answer: Any, later: list[Any]) -> None:
    events: queue.Queue[RunEvent] = queue.Queue()
    sent = frames(answer, *later)
    follower = NodeClient(
        PLAN.run_id, PLAN.nodes[0], lambda: Host(sent), ResumePoint(), patience_s=0.0, events=events
    )
    follower.close()
    follower.run()
    while not events.empty():
        event = events.get()
        assert not (isinstance(event, HostLost | StartRefused) and "following it failed" in event.why)


EVENTS: tuple[dict[str, Any], ...] = (
    {"event": "rank", "rank": 0, "pid": 1, "local_rank": 0, "world_size": 2},
    {"event": "state", "rank": 0, "world_rank": 0, "world_size": 2, "device": "cpu", "mixed_precision": "no"},
    {"event": "exception", "rank": 0, "type": "E", "message": "m", "location": "x:1", "tail": ["a"]},
    {"event": "rank_exit", "rank": 0, "code": 1},
    {"event": "launcher_exit", "code": 1},
    {"event": "stopping", "requested": True, "why": "w", "grace_s": 3.0},
    {"event": "idle", "seconds": 70.0, "timeout_s": 60.0},
    {"event": "hung", "why": "w"},
    {"event": "oom", "count": 1, "scope": "group"},
    {
        "event": "guard",
        "rank": 0,
        "message": "m",
        "code": "G1",
        "stops": True,
        "step": 1,
        "parameters": ["p"],
    },
    {"event": "guard_facts", "rank": 0, "gpu": "", "dtypes": {"float32": 1}, "scaler": False, "versions": {}},
    {
        "event": "rehearsal",
        "rank": 0,
        "parameter_dtypes": {"float32": 1},
        "gradient_dtypes": {"float32": 1},
        "state_dtypes": {},
        "devices": {"cpu": 1},
        "finite": {"loss": True, "gradients": True, "weights": True},
        "performed": 2,
        "losses": [1.0],
        "step_s": [0.1],
        "memory": {"rss_peak_mib": 5, "host_total_mib": 9},
    },
    {"event": "usage", "gpus": {"GPU-1": {"busy": 1.0}}, "ranks": {"0": {"rss_mib": 1}}},
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event["event"])
def test_an_event_of_ours_fits(event: dict[str, Any]) -> None:
    assert validate_event({**event, "t": 1.0}) == ""


@given(
    st.lists(st.sampled_from(EVENTS).flatmap(lambda event: mutated({**event, "t": 1.0})), max_size=6), JSON
)
@settings(max_examples=150)
def test_a_history_of_odd_events_is_told_to_its_end(events: list[Any], end: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        watch = RunState(PLAN)
        reporter = RunReporter(watch, Screen(io.StringIO()), LogStore(Path(folder)), clock=lambda: 0.0)
        history: list[RunEvent] = [HostStarted("a", "/r"), HostStarted("b", "/r")]
        fit = [event for event in events if not validate_event(event)]
        history += [HostReport("a", event["event"], event, float(event["t"])) for event in fit]
        states = [end if not validate_state(end) and isinstance(end, dict) else STATE, STATE]
        history += [HostEnded("a", states[0]), HostEnded("b", STATE)]
        for event in history:
            list(reporter.handle(event))
        reporter.output(LogOutput("a", "rank-0.log", 0, b"x"))
        outcome = reporter.with_measurements(build_outcome(watch, Path(folder), 1.0, 1))
        json.dumps(encode_outcome(outcome))
        assert "\x1b" not in "".join(map(str, render_outcome(outcome)))
        evaluate_rehearsal(outcome)


def answer_line(document: Any) -> bytes:
    return f"\n{ANSWER_MARKER} {json.dumps(document)}\n".encode()


def answer_of(document: Any) -> dict[str, Any]:
    """Return a document as it was read below a login shell's words."""
    return find_answer(
        CommandResult(0, b"Welcome!" + answer_line(document), b""), "a", "python3", "a program"
    )


CHECKPOINTS = {"found": [{"path": "p", "step": 1, "whole": True, "why": "", "full": "/p"}]}
FOUND = {"found": [{"path": "p", "python": "3", "torch": "2", "accelerate": "1", "transformers": "4"}]}
REAPED = {"records": [{"pid": 1, "start_ticks": 2, "result": "gone", "signals": ["TERM"]}], "audit": "x"}
REACHED = {"reached": [["10.0.0.1", 29500, "", 1.0]]}


@given(JSON | mutated(CHECKPOINTS), JSON | mutated(FOUND), JSON | mutated(REAPED), JSON | mutated(REACHED))
def test_what_programs_on_a_host_answer(checkpoints: Any, found: Any, reaped: Any, reached: Any) -> None:
    for read in (
        lambda: parse_checkpoints(answer_of(checkpoints), "a"),
        lambda: parse_environments(answer_of(found), "a"),
        lambda: parse_kill_results(answer_of(reaped), "a"),
    ):
        assert isinstance(only_ours(read), tuple | GpulaunchError)
    targets = ProbeTargets(B.name, "10.0.0.1", "n", (29500,), ())
    probe_from(A, lambda *_: Sent(answer_line(reached)), targets)


WRITTEN = {"written": 1, "kept": ["a"], "kept_in": "", "deleted": [], "stale": [], "edited": []}


@given(
    *(JSON | mutated(each) for each in ({"root": "/r", "rsync": ""}, {"seen": ["n"]}, {"need": [0]}, WRITTEN))
)
def test_a_host_that_receives_a_tree(root: Any, seen: Any, need: Any, written: Any) -> None:
    for steps in ((seen,), (need,), (written,), (root, seen, need, written)):
        data = b"".join(answer_line(each) for each in (root, *steps))
        receiver = SyncReceiver(Host(data), "python3")
        only_ours(lambda to=receiver: (to.begin("/r", "n"), to.list_seen(["n"])))  # type: ignore[misc]
        only_ours(lambda to=receiver: to.compare([["x"]], delete=False))  # type: ignore[misc]
        end = only_ours(lambda to=receiver: (to.finish_staging(), to.commit()))  # type: ignore[misc]
        assert isinstance(end, tuple | GpulaunchError)


@given(JSON | mutated(_base()))
@settings(max_examples=150)
def test_facts_of_hosts(document: Any) -> None:
    def read() -> None:
        facts = decode_document("a", json.dumps(document).encode(), "a")
        check_host(facts, Job(), Expect())
        check_cluster({"a": facts, "b": facts}, Job(), ())

    only_ours(read)


STARTED = b'{"state": {}, "t": 1}\n'


def test_a_log_that_leaves_a_gap_is_not_followed() -> None:
    good, far = (b'{"log": "rank-0.log", "offset": %d, "size": 1}\nx' % offset for offset in (0, 8 << 40))
    _, output, dropped, *_ = followed(STARTED, good, far)
    assert output == LogOutput("a", "rank-0.log", 0, b"x")
    assert isinstance(dropped, Disconnected)
    assert "continues at byte 8796093022208, expected byte 1" in dropped.why
    since = followed(STARTED, far, wishes={"since": {"bytes": 1}})
    assert LogOutput("a", "rank-0.log", 8 << 40, b"x") in since


def test_a_log_that_was_cut_on_its_host_goes_on_after_what_is_local() -> None:
    frames = [
        b'{"log": "rank-0.log", "offset": %d, "size": 2%s}\n%s' % each
        for each in (
            (0, b"", b"ab"),
            (0, b', "cut": true', b"cd"),
            (2, b"", b"ef"),
            (0, b', "cut": true', b"gh"),
        )
    ]
    events = followed(STARTED, *frames)
    output = [(each.offset, each.data) for each in events if isinstance(each, LogOutput)]
    assert output == [(0, b"ab"), (2, b"cd"), (4, b"ef"), (6, b"gh")]
    said = [each.fields["what"] for each in events if isinstance(each, HostReport)]
    assert said == ["keeping rank-0.log whole"] * 2


def test_a_supervisor_without_heartbeat_is_reported_once_until_it_beats_again() -> None:
    stall = b'{"alive": 1, "stall": {"pid": 7, "silent_s": 63.0, "stopped": true}}\n'
    events = followed(STARTED, stall, stall, b'{"alive": 2, "stall": null}\n', stall)
    said = [each.fields["error"] for each in events if isinstance(each, HostReport)]
    words = "its supervisor has given no sign of life for 1 min 3 s, and sees no end"
    assert said == [f"{words}: it is stopped; on the host: kill -CONT 7"] * 2


def test_a_node_has_no_end_of_logs() -> None:
    logs = (b'{"log": "%d.log", "offset": 0, "size": 1}\nx' % number for number in range(MAX_LOGS + 1))
    dropped = [each for each in followed(STARTED, *logs) if isinstance(each, Disconnected)]
    assert "more logs than a node has" in dropped[0].why


@pytest.mark.parametrize("grows", [True, False])
def test_a_file_that_leaves_a_gap_is_not_written(tmp_path: Path, grows: bool) -> None:  # noqa: FBT001
    receiver = FileReceiver(tmp_path / "a")
    piece = {"file": "rank-0.log", "whole": 9 << 40, "mtime_ns": 5, "grows": grows}
    receiver.write({**piece, "offset": 0}, b"x")
    with pytest.raises(HostError, match="left out a part"):
        receiver.write({**piece, "offset": 8 << 40}, b"x")
    receiver.close()
    assert {path.stat().st_size for path in (tmp_path / "a").iterdir()} == {1}


@pytest.mark.parametrize("length", [230, 255])
def test_a_file_whose_name_is_as_long_as_names_can_be_is_fetched(tmp_path: Path, length: int) -> None:
    name = "output/" + "n" * length
    receiver = FileReceiver(tmp_path / "a")
    piece = {"file": name, "whole": 4, "mtime_ns": 1_700_000_000_000_000_000, "grows": False}
    receiver.write({**piece, "offset": 0}, b"ab")
    receiver.close()
    assert list(receiver.missing()["part"].values()) == [[[4, 1_700_000_000_000_000_000, 2]]]
    receiver.write({**piece, "offset": 2}, b"cd")
    assert (tmp_path / "a" / name).read_bytes() == b"abcd"
    assert [len(path.name) for path in (tmp_path / "a" / "output").iterdir()] == [length]


def test_one_file_that_cannot_be_written_here_does_not_end_the_rest(tmp_path: Path) -> None:
    receiver = FileReceiver(tmp_path / "a")
    piece = {"whole": 1, "offset": 0, "mtime_ns": 5, "grows": False}
    for name in ("x" * 256, "d/f", "d", "d/f/g", "good"):
        receiver.write({**piece, "file": name}, b"1")
    assert (tmp_path / "a" / "good").read_bytes() == b"1"
    assert [words.partition(":")[0][:3] for words in receiver.fetched.skipped] == ["xxx", "d", "d/f"]


ODD_ENDS: tuple[Any, ...] = ({"ranks": {"x": 0}}, {"remaining_pids": 5}, [])


@pytest.mark.parametrize("state", [[], "ended", *({"exit": end} for end in ODD_ENDS)])
def test_an_odd_answer_to_stop_is_that_hosts_error(state: object) -> None:
    results = stop_run(
        "r",
        (A, B),
        lambda entry: Host(frames({"state": state if entry is A else STATE, "alive": False})),
        grace_s=0.0,
        why="w",
    )
    assert isinstance(results[0], AgentProtocolError)
    assert results[1] == {"state": STATE, "alive": False}


PLAN_FILE = {
    "run_id": PLAN.run_id,
    "job": "j",
    "world_size": 2,
    "mixed_precision": "no",
    "nodes": [{"host": "a", "first_rank": 0, "ranks": {"slots": [{"local_rank": 0, "gpu_uuid": None}]}}],
}
OUTCOME_FILE = json.loads(json.dumps(encode_outcome(build_outcome(RunState(PLAN), Path("runs"), 1.0, 1))))
NOTE = {"at": 1.0, "text": "t", "bad": False, "sizes": {"a/rank-0.log": 4}}
SAMPLE = {"event": "usage", "t": 1.0, "gpus": {}, "ranks": {"0": {"rss_mib": 1, "cpu": 2.0}}}


@given(JSON | mutated(PLAN_FILE), JSON | mutated(OUTCOME_FILE), JSON | mutated(NOTE), JSON | mutated(SAMPLE))
@settings(max_examples=60)
def test_what_a_run_has_left_here(plan_file: Any, outcome: Any, note: Any, sample: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        (top / "a").mkdir()
        (top / "a" / "rank-0.log").write_text("step 1 loss: 0.5\n")
        for name, document in (("plan.json", plan_file), ("outcome.json", outcome)):
            (top / name).write_text(json.dumps(document))
        (top / "events.jsonl").write_text(json.dumps(note) + "\n")
        (top / "a" / "usage.jsonl").write_text(json.dumps(sample) + "\n")
        run = read_run(top)
        json.dumps(encode_summary(run))
        assert "\x1b" not in "".join(map(str, render_summary(run)))
        assert render_page(run).rstrip().endswith("</html>")


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "NaN", "-Infinity"])
def test_a_number_that_nothing_of_ours_writes_costs_its_line_only(tmp_path: Path, number: str) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN_FILE))
    odd = json.dumps({**NOTE, "at": 0}).replace('"at": 0', f'"at": {number}')
    (tmp_path / "events.jsonl").write_text(f"{odd}\n{json.dumps(NOTE)}\n")
    assert [event.at for event in read_run(tmp_path).events] == [1.0]
