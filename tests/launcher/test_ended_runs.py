"""A run that has ended is shown as it was: who stopped it, when, for how long; however late and often."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.exit_codes import ExitCode
from launcher.follow.events import RunEvent
from launcher.follow.outcome import build_outcome
from launcher.follow.phases import Phases
from launcher.follow.run_state import RunState
from launcher.planning.run_record import RunRecord
from launcher.rundir.end_state import summarize_ends
from launcher.rundir.log_store import LogStore
from launcher.runs.attach import HISTORY_BYTES
from launcher.runs.expected_run import select_run
from launcher.runs.last_run import SearchScope, read_local_scope
from launcher.runs.render import render_runs
from preflight.errors import BadInput
from tests.launcher.asked_runs import LONG
from tests.launcher.asked_runs import ended as ended_there
from tests.launcher.found_runs import A, B, found, launched_by, node_run, over
from tests.launcher.run_events import CPU, ended, host_report, placed, replay, said, stops
from tests.launcher.run_plans import NOWHERE, plan, run_id
from tests.launcher.terminal import RUN, Home

NEWER = "r-2-20261122-104501-0a1b2d"
pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.end_all()


def test_a_late_attach_tells_what_was_and_changes_nothing_of_it(home: Home) -> None:
    home.launch(LONG)
    record = home.home / ".local/state/gpulaunch/launches" / f"{RUN}.json"
    unnamed = home.gpulaunch("stop")  # without a terminal to ask on
    assert (unnamed.returncode, f"fix: gpulaunch stop {RUN}\n" in unnamed.stderr) == (2, True), unnamed.stderr
    stopped = home.gpulaunch("stop", RUN, "--grace", "5")
    assert stopped.returncode == 0, stopped.stderr
    assert json.loads(record.read_text())["over"], "ps asks its host for it no more"
    state = json.loads((home.runs / RUN / "state.json").read_text())
    time.sleep(2.0)  # what is told later must not be stretched by it
    texts = []
    for _ in range(2):
        attached = home.gpulaunch("attach", RUN)
        assert attached.returncode == 130, attached.stdout + attached.stderr
        assert "stopping every node" not in attached.stdout
        assert "this run has ended " in attached.stdout
        assert re.search(r"interrupted: stopped by \S+@\S+ \(exit code 130\)", attached.stdout)
        phases = re.search(r"==> start ([\d.]+) s(?:, run ([\d.]+) s)?, end ([\d.]+) s", attached.stdout)
        assert phases is not None, attached.stdout
        lasted = state["ended"] - state["started"]
        outcome = json.loads((home.home / "gpulaunch-runs" / RUN / "outcome.json").read_text())
        assert [each["seconds"] > 0.0 for each in outcome["phases"] if each["name"] == "start"] == [True]
        assert sum(float(seconds or 0.0) for seconds in phases.groups()) < lasted + 0.5
        texts.append((home.home / "gpulaunch-runs" / RUN / "events.jsonl").read_text())
    assert texts[0] == texts[1]
    events = [json.loads(line) for line in texts[0].splitlines()]
    assert max(event["at"] for event in events) < state["ended"] + 0.5
    assert [event["text"] for event in events].count("interrupted") == 1
    why = f"stopped by {state['exit']['why'].removeprefix('stopped by ')}"
    assert why in home.gpulaunch("ps", "--all").stdout
    assert f"{RUN}: {why}" in home.gpulaunch("logs", RUN).stderr
    assert why in home.gpulaunch("report", RUN).stdout


def test_a_path_that_lies_deeper_is_fetched_as_the_answer_says(home: Home) -> None:
    home.launch("import os; os.makedirs('out/a/c-5'); open('out/a/c-5/w', 'w').write('x')", detach=False)
    lacks = home.gpulaunch("fetch", RUN, "--path", "c-5")
    assert lacks.returncode == 1
    assert "where it ran without one; one directory deeper: --path '*/c-5'\n" in lacks.stderr
    came = home.gpulaunch("fetch", RUN, "--path", "*/c-5")
    assert (came.returncode, came.stdout.splitlines()[-1]) == (0, f"in gpulaunch-runs/{RUN}/localhost/output")
    assert (home.home / f"gpulaunch-runs/{RUN}/localhost/output/a/c-5/w").read_text() == "x"
    assert "one directory deeper" not in home.gpulaunch("fetch", RUN, "--path", str(home.home / "c-5")).stderr


def test_a_run_that_no_host_knows_any_more_is_shown_by_what_is_kept_locally(home: Home) -> None:
    home.launch("print('done')", detach=False)
    ended_there(home)  # its keepers would write the directory again
    shutil.rmtree(home.runs / RUN)
    fetched = home.home / "gpulaunch-runs" / re.sub(r"-\d{8}-", "-20990101-", RUN)  # launched from elsewhere
    for word in (RUN, RUN.partition("-")[0], "last", "last"):
        lost = home.gpulaunch("logs", word)
        assert lost.returncode == 5, lost.stdout
        assert f"localhost answers and has nothing of {RUN}; " in lost.stderr
        assert f"gpulaunch report {RUN} shows what is kept locally" in lost.stderr
        if word == "last":
            fetched.mkdir(exist_ok=True)
    assert home.gpulaunch("report", RUN).returncode == 0
    assert "kept locally" not in home.gpulaunch("logs", "other").stderr


def test_a_report_of_a_fetched_run_without_an_outcome_says_why_it_ended(tmp_path: Path) -> None:
    from click.testing import CliRunner  # noqa: PLC0415 - only here

    from launcher.commands.diagnose import command as diagnose  # noqa: PLC0415 - only here
    from launcher.commands.report import command  # noqa: PLC0415 - only here

    host = tmp_path / "r-1" / "a"
    host.mkdir(parents=True)
    (host / "rank-0.log").write_text("line\n")
    (tmp_path / "r-1" / "plan.json").write_text(json.dumps({"run_id": "r-1"}))
    rest = "r-1: its local logs may be older than its end, which is not kept locally;"
    done = CliRunner().invoke(diagnose, ["r-1", "--logs", str(tmp_path)])
    assert done.output.splitlines() == [
        "no failure found",
        f"{rest} for the rest: gpulaunch fetch r-1, and this command again",
    ]
    (host / "rank-0.log").write_text("")
    done = CliRunner().invoke(diagnose, ["r-1", "--logs", str(tmp_path)])
    assert isinstance(done.exception, BadInput)
    assert done.exception.fix == "gpulaunch fetch r-1 brings what it has printed since"
    (host / "rank-0.log").write_text("line\n")
    end = {
        "ranks": {"0": -15},
        "why": "no client has followed this attached run for 60 s",
        "cause": "no_client",
        "launcher_code": 1,
    }
    (host / "state.json").write_text(json.dumps({"phase": "ended", "exit": end}))
    done = CliRunner().invoke(command, ["r-1", "--logs", str(tmp_path)])
    assert done.output.splitlines()[0] == "r-1: stopped: no client has followed this attached run for 60 s"
    assert done.output.splitlines()[-1].split()[:3] == ["0", "a", "SIGTERM"]
    done = CliRunner().invoke(diagnose, ["r-1", "--logs", str(tmp_path), "--json"])
    assert json.loads(done.output)["without_end"] == []


def test_the_reason_of_a_run_is_that_of_the_node_whose_end_began_first() -> None:
    failed = over(
        node_rank=1, ranks={"1": 7}, why="rank 1 failed with exit code 7", since=1990.0, ended=2005.0
    )
    stopped = over(ranks={"0": -9}, why="rank 1 on b failed with exit code 7", cause="peer", since=1991.0)
    (run,) = found((A, [stopped]), (B, [failed]))
    assert run.how == "failed: rank 1 failed with exit code 7"
    by_hand = over(ranks={"0": 1}, why="stopped by ana@x", cause="request", requested=True)
    (run,) = found((A, [by_hand]))
    assert run.how == "stopped by ana@x"
    (run,) = found((A, [over(ranks={"0": -15}, why="hung: no output for 60 s")]))
    assert run.how == "failed: hung: no output for 60 s"
    alone = over(ranks={"0": -15}, why="no client has followed this attached run for 5 s", cause="no_client")
    (run,) = found((A, [alone]))
    assert run.how == "stopped: no client has followed this attached run for 5 s"
    later = run.with_states({0: {"phase": "running"}})
    assert later.status == "lost"
    assert summarize_ends([{"ranks": {"0": 0}}, {"ranks": {"1": 0}}]) == ("finished", "")


def test_a_run_that_has_ended_on_one_host_only_says_so_and_is_not_over() -> None:
    failed = over(node_rank=1, ranks={"1": 7}, why="rank 1 failed with exit code 7")
    (run,) = found((A, [node_run()]), (B, [failed]))
    assert (run.status, run.is_over, run.why) == ("running", False, "rank 1 failed with exit code 7")
    (remark,) = [line for line in render_runs([run], 5000.0) if "it has ended on b" in line]
    assert "(rank 1 failed with exit code 7); gpulaunch attach or stop ends the rest" in remark
    (half,) = found((B, [failed]))
    assert not half.is_over  # the other host was not heard
    (half,) = found((A, [over()]))
    _, row, remark = render_runs([half], 5000.0, answered={"a", "b"})
    assert "finished 0 on 1 of 2 nodes" in row
    assert remark.endswith("b has no record of it: it was not started or has been removed")


def test_last_is_the_newest_of_this_directory_else_of_yours_and_never_anothers() -> None:
    mine, other, here = run_id("mine-1"), run_id("other-1"), run_id("here-1")
    runs = found(
        (
            A,
            [
                launched_by("ana@x", "here-1", 10.0),
                launched_by("ana@y", "mine-1", 20.0),
                launched_by("bob@x", "other-1", 30.0),
            ],
        )
    )
    kept = SearchScope(frozenset({here}), frozenset(), "ana")
    by_config = SearchScope(frozenset(), frozenset({"here"}), "ana")
    elsewhere = SearchScope(frozenset(), frozenset({"other"}), "ana")
    assert [scope.find_last(runs).run_id for scope in (kept, by_config, elsewhere)] == [here, here, mine]
    assert [scope.find_last_live(runs).run_id for scope in (kept, elsewhere)] == [here, mine]
    newer = kept.find_other_live(runs[0], runs)
    assert newer is not None
    assert newer.run_id == mine
    assert kept.find_other_live(newer, runs) is None  # bob's is newer, and no run for ana to stop
    with pytest.raises(BadInput, match=f"the newest, {other}, is of bob"):
        SearchScope(frozenset(), frozenset(), "eve").find_last(runs)


def test_last_is_the_start_that_a_host_has_made_of_a_run_of_this_directory() -> None:
    first = [over("a-1", rank) for rank in (0, 1)]
    first[0]["next"] = {"state": "restarted", "run_id": run_id("b-1")}
    second, foreign = launched_by("ana@x", "b-1", 3000.0), launched_by("ana@x", "c-1", 10.0)
    second["spec"]["restart"] = {"after": run_id("a-1")}
    scope = SearchScope(frozenset({run_id("a-1")}), frozenset(), "eve")
    assert scope.find_last(found((A, [first[0], second]), (B, first[1:]))).run_id == run_id("b-1")
    second["spec"]["restart"] = {"after": run_id("c-1")}  # it says that it follows another one
    assert scope.find_last(found((A, [first[0], second, foreign]), (B, first[1:]))).run_id == run_id("a-1")
    launched = replace(found((A, [first[0]]), (B, first[1:]))[0], from_here=True)
    second["spec"]["restart"] = {"after": run_id("a-1")}
    (following,) = found((A, [second]))
    assert SearchScope(frozenset(), frozenset(), "ana").find_last((launched, following)) == following


def test_to_stop_an_earlier_start_is_to_stop_the_last_one(home: Home) -> None:
    second = run_id("again")
    home.launch("print('over')", detach=False)
    home.launch(LONG, second)
    following = home.runs / RUN / "next.json"
    following.write_text(json.dumps({"state": "restarted", "run_id": run_id("gone")}))
    refused = home.gpulaunch("stop", RUN)
    said = f'{RUN} was started again as {run_id("gone")}: no run called "{run_id("gone")}" was found'
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stdout + refused.stderr
    following.write_text(json.dumps({"state": "restarted", "run_id": second}))
    refused = home.gpulaunch("stop", RUN)  # another run says nothing of that
    assert (refused.returncode, home.phase(second)) == (2, "running"), refused.stdout + refused.stderr
    assert f"fix: name what you mean: {second}\n" in refused.stderr
    spec = home.runs / second / "spec.json"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "restart": {"after": RUN}}))
    stopped = home.gpulaunch("stop", RUN, "--grace", "5")
    assert (stopped.returncode, home.phase(second)) == (0, "ended"), stopped.stdout + stopped.stderr
    assert f"{RUN} was started again; its last start is {second}\n" in stopped.stdout
    assert f"{second} has ended on localhost; no process of it is left\n" in stopped.stdout


def test_the_last_live_run_is_an_older_one_where_the_newest_is_over() -> None:
    scope = SearchScope(frozenset(), frozenset(), "ana")
    older = launched_by("ana@x", "a-1", 10.0)
    newest = [over("b-1", rank) for rank in (0, 1)]
    for node in newest:
        node["state"]["started"] = 20.0
        node["spec"]["launch"]["started_by"] = "ana@x"
    assert scope.find_last_live(found((A, [older, newest[0]]), (B, newest[1:]))).run_id == run_id("a-1")
    assert scope.find_last_live(found((A, newest[:1]), (B, newest[1:]))).run_id == run_id("b-1")


def test_the_name_of_several_runs_means_the_newest_and_to_stop_the_one_that_lives() -> None:
    scope = SearchScope(frozenset(), frozenset(), "ana")
    (live,) = found((A, [launched_by("ana@x", "a", 10.0)]))
    nodes = [over("a", rank) for rank in (0, 1)]
    for node in nodes:
        node["spec"]["launch"]["started_by"] = "ana@x"
    (ended,) = found((A, nodes[:1]), (B, nodes[1:]))
    newest = replace(ended, run_id="a-20991231-235959-ffffff")
    (longer,) = found((A, [launched_by("ana@x", "a-b", 10.0)]))
    assert select_run((live, longer, newest), "a", scope.find_newest) == newest
    assert select_run((live, newest), "a", scope.find_live) == live
    assert select_run((live, longer), "a", scope.find_exact) == live  # the one that has this name
    assert select_run((ended, newest), "a-2", scope.find_live) == newest  # which is over: so stop says
    assert (
        select_run((live, longer, newest), "a", scope.find_live) == live
    )  # whatever else lives: a-b is not a
    assert select_run((ended, longer, newest), "a", scope.find_live) == newest
    half = replace(newest, nodes=newest.nodes[:1])  # its other node is not known to have ended
    (later,) = found((A, [launched_by("ana@x", "a", half.started + 1.0)]))
    assert select_run((half, later), "a", scope.find_live) == later
    assert select_run((ended, half), "a", scope.find_live) == half
    for word, choose in (("a-2", scope.find_newest), ("a", scope.find_exact), ("", scope.find_live)):
        with pytest.raises(BadInput, match="is ambiguous, it means"):  # a and a-b both live
            select_run((live, newest, longer), word, choose)
    with pytest.raises(BadInput, match="is ambiguous, it means 2 runs"):  # it may be half that is to stop
        select_run((live, half), "a", scope.find_live)


def test_the_scope_of_a_directory_is_its_run_configs_and_what_is_kept_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("gpulaunch/train.yaml", "gpulaunch/hosts.yaml", "configs/long.yml", "gpulaunch-runs/r-1/x"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    record = RunRecord(plan((None,)), (A,), "ana@x", 1.0, logs=str(tmp_path / "gpulaunch-runs"))
    other, old = replace(record, logs=str(tmp_path / "x" / "gpulaunch-runs")), replace(record, logs="")
    scope = read_local_scope(Path("gpulaunch-runs"), {"here": record, "there": other, "unknown": old})
    assert (sorted(scope.kept), sorted(scope.jobs)) == (["r-1"], ["long", "train"])
    assert scope.elsewhere == {"there"}


def test_rm_names_the_last_run_and_deletes_it_only_after_a_yes(home: Home) -> None:
    home.launch("print('up')")
    ended_there(home)
    done = home.gpulaunch("rm", "last", "--yes")
    assert done.returncode == 2, done.stdout
    assert f"last is {RUN}" in done.stderr
    assert f"gpulaunch rm {RUN} --yes" in done.stderr
    assert (home.runs / RUN).exists()
    stopped = home.gpulaunch("stop", "last")
    assert f"last is {RUN}  finished" in stopped.stderr


PAST: list[RunEvent] = [
    host_report("b", "stopping", 5.1, why="rank 0 on a failed with exit code 3", grace_s=3, cause="peer"),
    host_report("b", "rank_exit", 5.2, rank=1, code=-15, stopping=True),
    placed("a", 0, 2),
    host_report("a", "rank_exit", 5.0, rank=0, code=3, stopping=False),
    ended("b"),
    ended("a"),
]


def test_a_run_that_is_over_is_not_stopped_again_and_the_failure_that_ended_it_is_its_cause() -> None:
    watch = RunState(plan(CPU, CPU), over=True)
    actions = replay(watch, PAST)
    assert stops(actions) == []
    assert "stopping every node" not in said(actions)
    outcome = build_outcome(watch, NOWHERE, 1.0, 1)
    assert (outcome.verdict, outcome.exit_code) == ("failed", 3)


@pytest.mark.parametrize(
    ("cause", "why", "code"),
    [("peer", "b was lost", ExitCode.ABORTED), ("hang", "hung: no output for 60 s", ExitCode.HUNG)],
)
def test_hosts_that_another_client_ended_for_a_failure_are_not_stopped_by_a_person(
    cause: str, why: str, code: int
) -> None:
    watch = RunState(plan(CPU, CPU))
    stopping = host_report("a", "stopping", why=why, grace_s=3, cause=cause, requested=True)
    (stop,) = stops(replay(watch, [stopping, ended("a"), ended("b")]))
    assert stop.failed
    outcome = build_outcome(watch, NOWHERE, 1.0, 1)
    assert (outcome.verdict, outcome.exit_code, outcome.why) == ("failed", code, why)


def test_the_end_of_the_main_host_makes_no_person_of_a_failure() -> None:
    watch = RunState(plan(CPU, CPU), after_main_s=5.0)
    failed = host_report("a", "rank_exit", rank=0, code=3)
    asked = stops(replay(watch, [placed("a", 0, 2), placed("b", 1, 2), failed, ended("a")]))
    assert [(stop.hosts, stop.failed) for stop in asked] == [(("a", "b"), True), (("b",), True)]


def test_phases_begin_with_the_run_whatever_was_heard_first() -> None:
    watch = RunState(plan(CPU))
    phases = Phases(watch)
    phases.update(100.0)
    for event in (host_report("a", "started", 10.0), placed("a", 0, 1)):
        replay(watch, [event])
        phases.update(12.0 if event.event == "state" else 10.0)
    assert phases.start is not None
    assert phases.start.seconds == 2.0


def test_what_was_noted_of_the_past_is_not_noted_again_and_what_is_new_is(tmp_path: Path) -> None:
    first = LogStore(tmp_path)
    first.add_event("rank 0 on a ended with exit code 0", at=5.0)
    again = LogStore(tmp_path, again=True)
    again.add_event("rank 0 on a ended with exit code 0", at=5.01)
    again.add_event("rank 1 on b ended with exit code 0", at=6.0)
    again.add_event("a: connected again, nothing was lost")
    again.add_event("a: connected again, nothing was lost")
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["text"][:6] for line in lines] == ["rank 0", "rank 1", "a: con", "a: con"]
    assert (lines[1]["at"], lines[1]["sizes"]) == (6.0, None)
    assert {line["schema"] for line in lines} == {"gpulaunch.event/1"}


@pytest.mark.parametrize(
    "width", [40, 41], ids=["a-line-begins-where-history-does", "history-begins-within-one"]
)
def test_the_history_of_an_attached_run_begins_with_a_whole_line(home: Home, width: int) -> None:
    home.launch(f"for n in range(400): print(str(n).rjust({width} - 1, '.'))")
    ended_there(home)
    (log,) = home.home.glob("gpulaunch-runs/*/*/rank-0.log")
    whole = log.read_bytes()
    for kept in (0, 15000):
        log.write_bytes(whole[:kept])
        shown = re.findall(r"^\[[^]]*r0\] (.*)$", home.gpulaunch("attach", RUN).stdout, re.MULTILINE)
        first = -((HISTORY_BYTES - 400 * width) // width)  # the first that begins within the last bytes
        assert [str(n).rjust(width - 1, ".") for n in range(first, 400)] == shown


def test_a_word_that_means_an_older_run_names_the_newer_one_that_lives(home: Home) -> None:
    home.launch("print(1)")
    ended_there(home)
    home.launch(LONG, NEWER)
    alone = home.gpulaunch("logs", "last", "-n", "1").stderr
    assert alone.startswith(f"last is {NEWER}  ")
    assert "another run lives" not in alone
    shutil.rmtree(home.home / "gpulaunch-runs" / NEWER)  # as if it was launched from another directory
    older = home.gpulaunch("logs", "last", "-n", "1").stderr
    assert older.startswith(f"last is {RUN}  ")
    assert f"another run lives, name it to take it: {NEWER}  running" in older
