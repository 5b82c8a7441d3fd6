"""Hangs for real, on this machine: what is one, what is none, and what is written down before the end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.follow import protocol
from launcher.remote.program_source import read_program_source
from preflight.diagnosis.stack_analysis import find_outliers, read_stacks
from tests.field_notes.ranks import LIGHT, shimmed
from tests.launcher.onhost_driver import LAUNCHER, PYTHON, Driver

pytestmark = pytest.mark.slow

LOCKED = """
import threading
def wait_for_nobody():
    print("up", flush=True)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
wait_for_nobody()
"""
# Quiet until it is given a word; then it says something, and is quiet until it is to end.
QUIET = """
import os, time
def wait_for(word):
    while not os.path.exists(os.path.join(os.environ["GPULAUNCH_RUN_DIR"], word)): time.sleep(0.05)
wait_for("go")
print("there", flush=True)
wait_for("end")
"""
# goes_on: whether to work on; it leaves word of its last work, and of work that the machine held up.
WORKS = """
import os, time
word = os.path.join(os.environ["GPULAUNCH_RUN_DIR"], "work")
last = time.monotonic()
end = last + 4
def goes_on():
    global last
    last, before = time.monotonic(), last
    for name in [word] + [word + "-held-up"] * (last - before > 1.0):
        open(name, "a").close()
        os.utime(name)
    return last < end
def compute():
    sum(range(2_000_000))
    time.sleep(0.05)  # a rank that uses a fifth of a core works
"""
GLOO = """
import os, threading
import torch, torch.distributed as dist
store = dist.FileStore(os.environ["STORE"], int(os.environ["WORLD_SIZE"]))
dist.init_process_group("gloo", store=store, rank=int(os.environ["RANK"]), world_size=3)
def load_batch():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def step(n):
    if n == 2 and os.environ["RANK"] == "1":
        load_batch()
    dist.all_reduce(torch.ones(1))
for n in range(5):
    step(n)
    print("up", flush=True)
"""


def start(run: Driver, script: str, ranks: int = 1, **spec: Any) -> None:
    ours = [[f"{name}.py", read_program_source(name).decode()] for name in ("gauge", "stacks")]
    files = [["launch.py", LAUNCHER], ["s/x.py", script], *ours]
    run.start(script, ranks=ranks, files=files, **{"usage_every_s": 0.2, "hang_timeout_s": 1.5, **spec})


def hide_py_spy(run: Driver) -> None:
    """Hide what may be installed beside this Python: that of the ranks is looked beside first."""
    path = run.run_dir / "spec.json"
    spec = json.loads(path.read_text())
    path.write_text(json.dumps({**spec, "argv": ["/nowhere/python", *spec["argv"][1:]]}))


def events_of(run: Driver, *names: str) -> list[str]:
    return [event["event"] for event in run.events if event["event"] in names]


def stacks(run: Driver, rank: int = 0) -> str:
    return run.log(f"stacks-rank-{rank}.log").decode()


def test_a_run_that_is_stuck_in_its_own_lock_is_ended_with_its_stacks(run: Driver) -> None:
    start(run, LOCKED)
    end = run.ended()
    assert end["exit"]["ranks"] == {"0": -15}
    assert end["exit"]["why"].startswith("hung: no output, no optimizer step, no use of GPU or CPU for ")
    assert run.event("stacks")["ranks"] == [0]
    assert "in wait_for_nobody" in stacks(run) or "wait_for_nobody (" in stacks(run)
    assert events_of(run, "idle", "hung", "stacks", "stopping") == ["idle", "hung", "stacks", "stopping"]
    assert run.gone() == {}


def test_the_rank_that_keeps_the_others_waiting_is_named(run: Driver, tmp_path: Path) -> None:
    start(run, GLOO, ranks=3, hang_timeout_s=4.0, env={"STORE": str(tmp_path / "store"), **shimmed(LIGHT)})
    run.event("stacks", 60)
    run.ended()
    standings = [standing for n in range(3) if (standing := read_stacks(stacks(run, n), "a"))]
    hang = find_outliers(standings, 3)
    assert hang.outliers == (1,)
    assert hang.summary.startswith("rank 1 executes load_batch (x.py:")
    assert "while each of ranks 0, 2 waits in all_reduce, called by step (x.py:" in hang.summary


def test_a_rank_that_is_stopped_is_told_as_that(run: Driver) -> None:
    # nodes=2: its client, and no clock, decides that it hangs, once it does.
    start(run, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", nodes=2, hang_timeout_s=None)
    rank = Path(f"/proc/{run.event('rank')['pid']}/stat")
    run.until(lambda: rank.read_text().rpartition(")")[2].split()[0] == "T")
    run.say("hung 3 hung: nothing lives on any host")
    assert run.event("stacks")["missing"] == {"0": "it is stopped (SIGSTOP, or a debugger)"}
    assert run.ended()["exit"]["ranks"] == {"0": -15}
    standing = read_stacks(stacks(run), "a")
    assert standing is not None
    assert standing.location == "is stopped (SIGSTOP, or a debugger)"


def worked_to_its_end(run: Driver) -> bool:
    """Return whether it was not called hung, or rightly: this machine held up its work for a second."""
    end = run.ended()["exit"]["ranks"]
    if not (hung := [event["t"] for event in run.events if event["event"] == "hung"]):
        return bool(end == {"0": 0}) and events_of(run, "stacks") == []
    held_up = (run.run_dir / "work-held-up").exists()
    return held_up or hung[0] - (run.run_dir / "work").stat().st_mtime > 1.0


@pytest.mark.parametrize(
    "work",
    [
        "while goes_on(): compute()",
        "with open(__file__ + '.x', 'wb') as f:\n  while goes_on():\n    f.write(bytes(1 << 20)); f.seek(0); time.sleep(0.1)",  # noqa: E501 - a script
        "while goes_on(): print('.', flush=True); time.sleep(0.5)",
        "import multiprocessing\nworker = multiprocessing.get_context('fork').Process(target=lambda: [compute() for _ in iter(goes_on, False)])\nworker.start(); worker.join()",  # noqa: E501
    ],
    ids=["computes", "writes", "prints", "has a worker compute"],
)
def test_a_run_that_works_is_not_called_hung(run: Driver, work: str) -> None:
    start(run, WORKS + work, hang_timeout_s=2.5)
    assert worked_to_its_end(run)


def test_optimizer_steps_are_life(run: Driver) -> None:
    script = """
step = 0
while goes_on():
    step += 1
    with open(os.path.join(os.environ["GPULAUNCH_RUN_DIR"], "steps-rank-0"), "w") as file:
        file.write("%d" % step)
    time.sleep(0.4)
"""
    start(run, WORKS + script, hang_timeout_s=2.0)
    assert worked_to_its_end(run)
    samples = [json.loads(line) for line in run.log("usage.jsonl").splitlines()]
    steps = [sample["ranks"].get("0", {}).get("step") or 0 for sample in samples]
    assert max(steps) >= 2 or events_of(run, "hung")


def test_without_a_timeout_quiet_is_only_told_and_so_is_its_end(run: Driver) -> None:
    start(run, QUIET, hang_timeout_s=None, quiet_after_s=0.8)
    assert run.event("idle")["timeout_s"] is None
    assert events_of(run, "active") == []
    (run.run_dir / "go").touch()
    run.event("active")
    (run.run_dir / "end").touch()
    assert run.ended()["exit"]["ranks"] == {"0": 0}
    assert events_of(run, "hung") == []


def test_a_host_of_several_leaves_the_decision_to_its_client(run: Driver) -> None:
    start(run, LOCKED, nodes=2)
    run.until(lambda: events_of(run, "idle").count("idle") >= 1)
    time.sleep(1)
    assert events_of(run, "hung") == []
    run.say("hung 3 hung: nothing lives on any host")
    end = run.ended()["exit"]
    assert (end["why"], end["cause"]) == ("hung: nothing lives on any host", "hang")
    assert run.event("stacks")["ranks"] == [0]


def test_a_host_of_several_decides_alone_when_no_client_is_there(run: Driver) -> None:
    start(run, LOCKED, nodes=2, disconnect_s=None)
    run.event("idle")
    run.hang_up()
    (run.run_dir / "client").write_text("%.3f" % (time.monotonic() - 40))
    assert run.gone(60) == {}
    state = json.loads((run.run_dir / "state.json").read_text())
    assert state["exit"]["why"].startswith("hung: ")
    assert "wait_for_nobody" in (run.run_dir / "stacks-rank-0.log").read_text()


def test_a_stop_does_not_wait_for_the_stacks_of_a_hung_run(run: Driver) -> None:
    start(run, LOCKED, nodes=2)
    run.event("rank")
    (run.run_dir / "stacks.py").write_text("import time; time.sleep(60)")
    run.say("hung 3 hung")
    run.event("hung")
    run.say("stop 0 enough")
    assert run.ended(30)["exit"]["why"] == "enough"
    assert run.gone() == {}


# A script with signal handlers and a faulthandler of its own, a worker, and a child that is not ours.
BUSY_WITH_SIGNALS = """
import faulthandler, multiprocessing, os, signal, subprocess, sys, time
got = []
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, frame: got.append(number))
faulthandler.enable(open(os.devnull, "w"))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
worker = multiprocessing.get_context("fork").Process(
    target=lambda: (print("up", flush=True), time.sleep(60)), daemon=True
)
worker.start()
input_file = os.path.join(os.environ["GPULAUNCH_RUN_DIR"], "go")
while not os.path.exists(input_file):
    time.sleep(0.05)
print(got, child.poll(), worker.exitcode, flush=True)
child.kill()
"""


def test_asking_for_stacks_disturbs_nothing(run: Driver) -> None:
    start(run, BUSY_WITH_SIGNALS, hang_timeout_s=None)
    run.until(lambda: b"up" in run.log())
    hide_py_spy(run)
    argv = (sys.executable, "-ISE", str(run.run_dir / "stacks.py"), str(run.run_dir))
    for _ in range(2):
        subprocess.run(argv, check=True, timeout=60, env={**os.environ, "PATH": "/usr/bin:/bin"})
    run.until(lambda: events_of(run, "stacks") == ["stacks", "stacks"])
    (run.run_dir / "go").touch()
    assert run.ended()["exit"]["ranks"] == {"0": 0}
    assert b"[] None None" in run.log()
    text = stacks(run)
    assert text.count("=== rank 0, pid ") == 2
    assert text.count("=== a child of rank 0, pid ") == 2  # the worker; not the child that catches no signal
    assert text.count("<lambda>") == 2


def test_a_rank_that_has_left_its_handler_is_said_and_not_killed(run: Driver) -> None:
    script = """
import faulthandler, os, signal, time
faulthandler.unregister(signal.SIGRTMAX - 4)
print("up", flush=True)
while not os.path.exists(os.path.join(os.environ["GPULAUNCH_RUN_DIR"], "go")): time.sleep(0.05)
"""
    start(run, script, hang_timeout_s=None)
    run.until(lambda: b"up" in run.log())
    hide_py_spy(run)
    argv = (sys.executable, "-ISE", str(run.run_dir / "stacks.py"), str(run.run_dir))
    subprocess.run(argv, check=True, timeout=60, env={**os.environ, "PATH": "/usr/bin:/bin"})
    assert run.event("stacks")["missing"] == {"0": f"it has no handler for signal {signal.SIGRTMAX - 4}"}
    (run.run_dir / "go").touch()
    assert run.ended()["exit"]["ranks"] == {"0": 0}


def test_where_ranks_stand_is_told_on_request_and_the_run_goes_on(run: Driver) -> None:
    script = """
import os, threading
word, heard = os.path.join(os.environ["GPULAUNCH_RUN_DIR"], "go"), threading.Event()
def wait_for_a_word():
    while print("up", flush=True) or not os.path.exists(word): heard.wait(0.05)
wait_for_a_word()
"""
    start(run, script, ranks=2, hang_timeout_s=None)
    run.until(lambda: all(b"up" in run.log(f"rank-{n}.log") for n in range(2)))
    argv = ("env", f"XDG_STATE_HOME={run.home}", *protocol.build_supervisor_argv(PYTHON, "stacks", "r1"))
    question = protocol.encode_request({"mode": "stacks", "run_id": "r1"})
    (frame,) = protocol.FrameReader().feed(run.connection.run(argv, stdin=question).stdout)
    standings = [read_stacks(text, "a") for text in frame.header["stacks"].values()]
    assert [standing.location for standing in standings if standing] == [
        "executes wait_for_a_word (x.py:5)"
    ] * 2
    (run.run_dir / "go").touch()
    assert run.ended()["exit"]["ranks"] == {"0": 0, "1": 0}
    (frame,) = protocol.FrameReader().feed(run.connection.run(argv, stdin=question).stdout)
    assert frame.header["refused"] == "r1 does not run on this host any more"


# Answers as py-spy does for a process that may be looked at, else as where ptrace is forbidden.
PY_SPY = """#!/bin/sh
[ "$FORBIDDEN" ] && { echo "Permission Denied: Try running again with elevated permissions" >&2; exit 1; }
echo "Process $5: python x.py"
echo "Thread $5 (idle): \\"MainThread\\""
echo "    wait_for_nobody (x.py:6)"
"""


@pytest.mark.parametrize(("forbidden", "how"), [("", "py-spy"), ("1", "faulthandler")])
def test_py_spy_is_used_where_it_may_look(run: Driver, tmp_path: Path, forbidden: str, how: str) -> None:
    start(run, LOCKED, hang_timeout_s=None)
    run.until(lambda: b"up" in run.log())
    hide_py_spy(run)
    py_spy = tmp_path / "bin" / "py-spy"
    py_spy.parent.mkdir()
    py_spy.write_text(PY_SPY)
    py_spy.chmod(0o755)
    argv = (sys.executable, "-ISE", str(run.run_dir / "stacks.py"), str(run.run_dir))
    path = f"{py_spy.parent}:/usr/bin:/bin"
    subprocess.run(argv, check=True, timeout=60, env={**os.environ, "PATH": path, "FORBIDDEN": forbidden})
    assert run.event("stacks")["how"] == how
    assert f", {how}, " in stacks(run)
    standing = read_stacks(stacks(run), "a")
    assert standing is not None
    assert standing.own is not None
    assert standing.own.function == "wait_for_nobody"
