"""What `gpulaunch top` makes of facts and of the monitor's answers; its JSON and its metrics."""

import json
import random
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.commands import top
from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, ConnectionTimedOut
from launcher.local.fanout_places import Places
from launcher.terminal.step_progress import ProgressValues
from launcher.top.document import encode_view
from launcher.top.fleet import Fleet, build_view, view_host
from launcher.top.frame import render_processes
from launcher.top.holders import find_holders, shorten_command
from launcher.top.host_monitor import INSPECT_EVERY_S, HostMonitor, HostState, LogProgress, _Schedule
from launcher.top.monitor_answer import GpuSample, MonitorAnswer, parse_answer
from launcher.top.prometheus import render_metrics, write_metrics
from launcher.top.views import FleetView, HostPhase
from launcher.transports.base import Connection
from preflight.facts.gpu import ComputeProcess, GpuClaim
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Expect
from preflight.leftovers.classify import ProcessClass
from tests.launcher.found_runs import A, node_run, source
from tests.launcher.top_views import RUN, busy, fleet, gpu, host
from tests.preflight.scenes import GONE, ME, OTHER, Scene

SAMPLE = re.compile(
    r'gpulaunch_[a-z_]+(?:\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (?:-?[0-9.e+-]+|NaN|[+-]Inf)'
)


def scene(*, machine: bool = True) -> Scene:
    return Scene(random.Random(3), machine=machine)


def with_uuids(facts: HostFacts) -> HostFacts:
    assert not isinstance(facts.gpus, Missing)
    return replace(facts, gpus=tuple(replace(each, uuid=f"GPU-{each.index}") for each in facts.gpus))


def state(facts: HostFacts | None, **fields: object) -> HostState:
    known = HostState(HostEntry("a"), phase="live", facts=facts, heard_at=100.0, facts_at=100.0)
    holders = find_holders(facts, Expect()) if facts is not None else {}
    return replace(known, holders=holders, **fields)  # type: ignore[arg-type]


def test_no_gpu_is_free_whose_driver_hangs_after_its_list_of_processes() -> None:
    facts = with_uuids(scene().facts())
    assert not isinstance(facts.gpus, Missing)
    first, *others = facts.gpus
    hung = replace(first, utilization_percent=Missing("no answer within 15 s", "timeout"))
    known, silent = (view_host(state(replace(facts, gpus=(each, *others))), 101.0) for each in (first, hung))
    assert (known.answers, known.gpus[0].free, known.gpus[0].problem) == (True, True, "")
    assert (silent.answers, silent.gpus[0].free) == (False, False)
    assert silent.gpus[0].problem == "the driver does not answer: no answer within 15 s"


def test_a_host_without_a_gpu_answers_and_one_whose_driver_hangs_does_not() -> None:
    kinds = (Missing("why", "no-devices"), Missing("why", "no-library"), Missing("why", "timeout"))
    found = [view_host(state(replace(scene().facts(), gpus=kind)), 101.0) for kind in kinds]
    assert [(each.current, each.answers) for each in found] == [(True, True), (True, True), (True, False)]


@pytest.mark.parametrize(
    ("words", "states", "code"),
    [
        (["a"], {"a": ("live", False)}, 1),
        ([], {"a": ("live", False), "b": ("live", True)}, 0),
        ([], {"a": ("live", False), "b": ("lost", True)}, 3),
        ([], {"a": ("live", True), "b": ("lost", True)}, 0),
        (["a", "b"], {"a": ("live", False), "b": ("lost", True)}, 3),
        (["a", "b"], {"a": ("live", True), "b": ("live", True)}, 0),
    ],
)
def test_the_exit_code_says_whether_what_was_named_answered(
    words: list[str], states: dict[str, tuple[HostPhase, bool]], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tuple(host(name, phase=phase, answers=answers) for name, (phase, answers) in states.items())
    monkeypatch.setattr(top, "_entries", lambda *_: ())
    monkeypatch.setattr(Fleet, "collect_once", lambda _: None)
    monkeypatch.setattr(Fleet, "view", lambda _: FleetView(0.0, hosts, ()))
    assert run_command_line(["top", "--once", *words]) == code


def test_holders_have_the_classes_of_clean_zombies() -> None:
    processes = scene()
    dead = processes.add(gpus=(0,), env={"GPULAUNCH_SUPERVISOR": GONE, "GPULAUNCH_RUN_ID": "run-1"})
    theirs = processes.add(gpus=(1,), uid=OTHER)
    found = find_holders(processes.facts(), Expect())
    (first,) = found[0].processes
    assert (first.pid, first.user, first.kind, first.mine) == (dead, "ada", ProcessClass.DEAD_RUN, True)
    assert (first.run_id, first.command, first.age_s) == ("run-1", "train.py", 7200.0)
    (second,) = found[1].processes  # only the driver names it: another user's files cannot be read
    assert (second.pid, second.kind, second.mine) == (theirs, ProcessClass.FOREIGN, False)
    assert [found[index].held for index in range(4)] == [True, True, False, False]
    (line, *_) = render_processes(state(processes.facts()), 0)
    assert line == "h: 1 left by dead runs of gpulaunch"


def test_a_display_server_takes_no_gpu_from_a_launch() -> None:
    processes = scene()
    processes.add(gpus=(0,), uid=ME, comm="Xorg", argv=("/usr/lib/xorg/Xorg",))
    found = find_holders(processes.facts(), Expect())
    assert found[0].held is False
    assert [holder.kind for holder in found[0].processes] == [ProcessClass.SYSTEM]


def test_who_cannot_be_seen_is_not_called_nobody() -> None:
    facts = scene().facts()
    assert not isinstance(facts.gpus, Missing)
    hidden = ComputeProcess(77, "compute", 512, Missing("?", "error"))
    unlisted = replace(facts.gpus[1], processes=Missing("the driver lists none", "not-supported"))
    gpus = (replace(facts.gpus[0], processes=(hidden,)), unlisted, *facts.gpus[2:])
    found = find_holders(replace(facts, gpus=gpus), Expect())
    assert (found[0].held, found[0].processes[0].kind, found[1].held) == (True, None, None)
    blind = find_holders(replace(facts, processes=Missing("time-out", "timeout")), Expect())
    assert [each.held for each in blind.values()] == [None] * 4


def test_pids_of_a_containers_host_are_not_counted_beside_its_own() -> None:
    processes = scene(machine=False)
    inside = processes.add(pid=1, ppid=0, gpus=(0,))
    processes.listed[0] = [90210]
    assert [holder.pid for holder in find_holders(processes.facts(), Expect())[0].processes] == [inside]
    processes.listed[1] = [90211]
    (other,) = find_holders(processes.facts(), Expect())[1].processes
    assert (other.kind, other.command) == (None, "outside of this container")


def test_a_claim_holds_a_gpu_before_its_processes_do() -> None:
    claim = GpuClaim("GPU-2", "run-9", "ben", OTHER, 5, 1.0)
    view = view_host(state(replace(with_uuids(scene().facts()), claims=(claim,))), 101.0)
    assert (view.gpus[2].free, view.gpus[2].claimed_by, view.gpus[2].run_ids) == (
        False,
        ("ben", "run-9"),
        ("run-9",),
    )
    assert not view.idle


def test_samples_win_over_facts_and_ages_go_on() -> None:
    processes = scene()
    processes.add(gpus=(0,))
    sample = GpuSample(55.0, 1024.0, 200.0, 300.0, 60.0, ("sw_power_cap",))
    view = view_host(state(with_uuids(processes.facts()), samples={"GPU-0": sample}), 105.0)
    assert (view.gpus[0].busy_percent, view.gpus[0].power_w, view.gpus[1].busy_percent) == (55.0, 200.0, 0)
    assert view.gpus[0].holders[0].age_s == 7205.0


def test_a_host_without_answers_is_not_the_present() -> None:
    assert view_host(state(with_uuids(scene().facts())), 111.0).phase == "live"
    silent = view_host(state(with_uuids(scene().facts())), 113.0)
    assert (silent.phase, silent.idle, silent.age_s) == ("silent", False, 13.0)
    error = ConnectionTimedOut("a", "no answer on port 22", "Is it up?")
    asked_once = view_host(state(with_uuids(scene().facts()), is_followed=False), 113.0)  # of a slower host
    assert (asked_once.phase, asked_once.current, asked_once.age_s) == ("live", True, 13.0)
    lost = view_host(state(None, phase="lost", error=error, retry_at=117.0, heard_at=0.0), 113.0)
    assert (lost.phase, lost.note, lost.fix, lost.retry_s) == (
        "lost",
        "no answer on port 22",
        "Is it up?",
        4.0,
    )
    assert lost.age_s is None
    facts = replace(scene().facts(), gpus=Missing("NVML: driver hangs", "timeout"))
    assert view_host(state(facts), 101.0).note == "GPUs not read: NVML: driver hangs"


def test_runs_have_the_progress_of_their_leading_rank() -> None:
    runs = source((A, [node_run("r1", 0), node_run("r2", 0, tail="step 7/9 loss: 0.5\n")]))
    ids = [run.run_id for run in runs.runs]
    progress = {ids[0]: LogProgress(ProgressValues(step=3, steps=10, loss=1.5, eta_s=70.0), 90.0)}
    view = build_view([replace(state(None), entry=A, progress=progress)], runs, 100.0, 0.0)
    first, second = view.runs
    assert (first.step, first.steps, first.loss, first.eta_s, first.output_age_s) == (3, 10, 1.5, 70.0, 10.0)
    assert (second.step, second.steps, second.loss, second.output_age_s) == (7, 9, 0.5, None)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"gpus": [], "missing": "", "watch": 1, "request": 1, "runs": {}},
        {"gpus": {"u": [1]}, "missing": "", "watch": 1, "request": 1, "runs": {}},
        {"gpus": {"u": ["x"] * 6}, "missing": "", "watch": 1, "request": 1, "runs": {}},
        {"gpus": {"u": [1, 1, 1, 1, 1, "inf"]}, "missing": "", "watch": 1, "request": 1, "runs": {}},
        {"gpus": {"u": ["nan", 1, 1, 1, 1, 1]}, "missing": "", "watch": 1, "request": 1, "runs": {}},
        {"gpus": {"u": [1e300, 1, 1, 1, 1, 1]}, "missing": "", "watch": 1, "request": 1, "runs": {}},
        {"gpus": dict.fromkeys(map(str, range(5000))), "missing": "", "watch": 1, "request": 1, "runs": {}},
        {"gpus": {}, "missing": "", "watch": None, "request": 1, "runs": {}},
        {"gpus": {}, "missing": "", "watch": 1, "request": 1, "runs": {"r": {"tail": ""}}},
    ],
)
def test_an_answer_that_has_not_its_form_is_refused(answer: dict[str, object]) -> None:
    with pytest.raises(AgentProtocolError, match="the monitor cannot be read"):
        parse_answer("a", answer)


def test_half_of_a_surrogate_pair_in_a_log_ends_no_thread() -> None:
    row = {"tail": "step 1\ud800", "age_s": 1.0, "step": None}
    answer = parse_answer("a", {"gpus": {}, "missing": "", "watch": 1, "request": 1, "runs": {"r": row}})
    assert answer.runs["r"].tail.encode() == b"step 1?"


def test_a_host_whose_answer_ends_in_a_bug_is_not_shown_as_live() -> None:
    def opener(_: HostEntry) -> Connection:
        monitor.stopped.set()
        raise ZeroDivisionError("of a bug")

    monitor = HostMonitor(HostEntry("a"), opener, Places(1), every_s=1.0)
    monitor._run()
    assert monitor.state.phase == "lost"
    assert "of a bug" in str(monitor.state.error)


def test_facts_are_read_again_when_processes_change_and_not_all_the_time() -> None:
    schedule, now = _Schedule(0.0), time.monotonic()
    assert not schedule.is_due(MonitorAnswer(watch=1, request=1), now + 1)
    assert not schedule.is_due(MonitorAnswer(watch=2, request=1), now + 10)  # others may come at once
    assert schedule.is_due(MonitorAnswer(watch=2, request=1), now + 11.5)
    schedule.note_inspection(now + 12, now + 14)
    assert not schedule.is_due(MonitorAnswer(watch=3, request=1), now + 15)  # an answer to the old request
    assert not schedule.is_due(MonitorAnswer(watch=4, request=2), now + 16)
    assert not schedule.is_due(MonitorAnswer(watch=5, request=2), now + 17)
    assert not schedule.is_due(MonitorAnswer(watch=5, request=2), now + 33)  # ten times what one takes
    assert schedule.is_due(MonitorAnswer(watch=5, request=2), now + 35)
    quiet = _Schedule(0.0)
    assert not quiet.is_due(MonitorAnswer(watch=1, request=1), now + 100)
    assert quiet.is_due(MonitorAnswer(watch=1, request=1), now + INSPECT_EVERY_S + 5)
    blind = _Schedule(0.0)
    assert blind.is_due(MonitorAnswer(missing="NVML cannot be loaded", request=1), now + 16)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (("/opt/venv/bin/python", "-u", "/home/ada/train.py", "--lr", "1"), "train.py --lr 1"),
        (("python3", "-m", "torch.distributed.run", "x.py"), "python3 -m torch.distributed.run x.py"),
        (("/usr/bin/jupyter-lab", "--port", "1"), "jupyter-lab --port 1"),
        (("python", "/runs/r/rank.py", "/runs/r/s/x.py", "--lr"), "x.py --lr"),
        (("python",), "python"),
        (("/",), "/"),
        ((), ""),
    ],
)
def test_commands_begin_with_what_tells_them_apart(argv: tuple[str, ...], shown: str) -> None:
    assert shorten_command(argv) == shown


def test_the_document_says_null_where_nothing_is_known() -> None:
    lost = host("lost", busy(0), phase="lost", note="no route", fix="look")
    view = fleet(host("a", gpu(0, power_w=None), busy(1)), lost, runs=(RUN,))
    found = json.loads(json.dumps({**encode_view(view), "exit_code": 0}))
    assert found["schema"] == "gpulaunch.top/1"
    idle, held = found["hosts"][0]["gpus"]
    assert (idle["power_w"], idle["free"], held["free"]) == (None, True, False)
    assert held["processes"][0]["class"] == "live"
    assert (found["hosts"][1]["state"], found["hosts"][1]["gpus"][0]["free"]) == ("lost", None)
    assert found["runs"][0]["eta_s"] == 372.0


def test_numbers_are_as_old_as_the_oldest_of_them() -> None:
    late = replace(host("a", gpu()), age_s=35.0)
    for hosts, read in (
        ((host("b"), late), 965),
        ((host("b"),), 999),
        ((replace(late, phase="lost"),), 1000),
    ):
        view = replace(fleet(*hosts), time_unix=1000.0)
        assert f"gpulaunch_snapshot_timestamp_seconds {read}\n" in render_metrics(view)


def test_metrics_have_the_text_format_with_escaped_labels(tmp_path: Path) -> None:
    evil = busy(1, user='a"b\\c\nd\x1b[2J', kind=None)
    view = fleet(host("a", gpu(0, temperature_c=None), evil), host("b", gpu(), phase="silent"), runs=(RUN,))
    lines = render_metrics(view).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert {re.split(r"[{ ]", line)[0] for line in samples} == set(names)
    assert 'gpulaunch_host_up{host="a"} 1' in samples
    assert 'gpulaunch_host_up{host="b"} 0' in samples
    assert not [line for line in samples if 'host="b"' in line and "host_up" not in line]
    (process,) = [line for line in samples if "gpu_processes" in line]
    assert 'user="a\\"b\\\\c\\nd",class="unknown",run="train-1"} 1' in process
    assert [line.rpartition(" ")[2] for line in samples if "memory_used_bytes" in line] == [
        "0",
        "41943040000",
    ]
    assert len([line for line in samples if "temperature" in line]) == 1
    file = tmp_path / "gpulaunch.prom"
    write_metrics(file, view)
    assert file.read_text().splitlines() == lines
    assert [path.name for path in tmp_path.iterdir()] == ["gpulaunch.prom"]
