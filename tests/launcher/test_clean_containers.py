"""Cleaning beside containers: real PID namespaces and processes, looked at from inside and outside."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.procfs import read_stat
from launcher.onhost.supervisor.processes import mark_of, read_start_ticks, send_signal
from launcher.onhost.supervisor.run_processes import find_run_processes, has_run_marker, read_supervisor_mark
from launcher.remote.program_source import build_stdin_command, read_program_source
from launcher.remote.rpc import find_answer
from launcher.transports.base import CommandResult
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass, classify_processes
from preflight.leftovers.selection import CleanFilter, select_to_kill
from tests.lab.fault_runs import until
from tests.lab.needs import why_no_namespaces
from tests.preflight.agent_runs import run_agent
from tests.preflight.test_agent_processes import PTHREAD_EXIT

ROOT = Path(__file__).parents[2]
PIDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_no_namespaces()), reason=why_no_namespaces())]

# A rank that listens on the port it is told, and says its pid, as its namespace numbers it, when it does.
RANK = """
import os, socket, sys, time
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(os.getpid(), flush=True)
time.sleep(120)
"""
# A supervisor of a run in a container: what it starts carries its mark. With "stay" it does not end before.
SUPERVISOR = """
import os, subprocess, sys
from launcher.onhost.supervisor.processes import run_markers
env = {**os.environ, **run_markers("r1", os.environ.get("RUN_DIR", ""))}
child = subprocess.Popen([sys.executable, "-c", *sys.argv[2:]], env=env)
if sys.argv[1] == "stay":
    child.wait()
os._exit(0)
"""
# PID 1 that starts a command, and reaps until it is killed; its name is that of the file it is started as.
INIT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", *sys.argv[2:]])
while True:
    try:
        os.wait()
    except ChildProcessError:
        import signal
        signal.pause()
"""
# A launcher that starts a rank and is gone; with "stay", it waits for it.
LAUNCHER = """
import os, subprocess, sys, time
env = {**os.environ, "TORCHELASTIC_RUN_ID": "1", "RANK": "0", "LOCAL_RANK": "0"}
child = subprocess.Popen([sys.executable, "-c", *sys.argv[2:]], env=env)
if sys.argv[1] == "stay":
    child.wait()
os._exit(0)
"""


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        number: int = door.getsockname()[1]
        return number


@contextmanager
def container(*argv: str, **env: str) -> Iterator[int]:
    """Start a command as PID 1 of a namespace; yield its pid here, once something in it has said a line."""
    process = subprocess.Popen(
        [*PIDS, *argv],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip().isdecimal()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield int(children[0])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def inside(pid: int) -> Sequence[str]:
    return ["nsenter", f"--target={pid}", "--pid", "--mount"]


def look(port: int, within: Sequence[str] = ()) -> HostFacts:
    return run_agent({"ports": [port]}, within=within).facts


def holder(facts: HostFacts, port: int) -> ClassifiedProcess:
    (found,) = [each for each in classify_processes(facts) if port in each.held.ports]
    return found


def chosen(facts: HostFacts) -> set[int]:
    choice = select_to_kill(classify_processes(facts), CleanFilter())
    return {each.process.pid for each in (*choice.automatic, *choice.needs_confirmation)}


def named_init(tmp_path: Path, name: str) -> str:
    """Return a Python that is called like an init."""
    path = tmp_path / name
    path.symlink_to(sys.executable)
    return str(path)


def end(pid: int, within: Sequence[str], **more: Any) -> dict[str, Any]:
    """Have kill_leftovers.py end a process, as pids are seen from there."""
    victim = {"pid": pid, "start_ticks": 0, "ppid": 0, "uid": os.getuid(), "mark": "", **more}
    argv, stdin = build_stdin_command(
        sys.executable,
        read_program_source("kill_leftovers"),
        json.dumps({"victims": [victim], "term_grace_s": 5, "kill_grace_s": 5}).encode(),
    )
    done = subprocess.run([*within, *argv], input=stdin, capture_output=True, check=True, timeout=60)
    record: dict[str, Any] = find_answer(CommandResult(0, done.stdout, b""), "a", "python3", "it")["records"][
        0
    ]
    return record


def test_a_live_run_in_a_container_is_live_for_its_host_too(port: int) -> None:
    with container(sys.executable, "-c", SUPERVISOR, "stay", RANK, str(port)) as supervisor:
        outer = look(port)
        rank = holder(outer, port)
        assert rank.kind is ProcessClass.LIVE
        assert rank.evidence == (f"run r1 is live: its supervisor is pid {supervisor}",)
        assert rank.process.pid not in chosen(outer)
        assert holder(look(port, inside(supervisor)), port).kind is ProcessClass.LIVE


def test_a_run_in_a_container_without_its_supervisor_is_proven_there_and_only_there(
    port: int, tmp_path: Path
) -> None:
    """The supervisor was killed: from outside that cannot be told from a supervisor that is not seen."""
    python = named_init(tmp_path, "init")
    with container(python, "-c", INIT, "-", SUPERVISOR, "go", RANK, str(port)) as init:
        outer, inner = look(port), look(port, inside(init))
        assert holder(outer, port).kind is ProcessClass.SUSPECT
        assert not chosen(outer) & {holder(outer, port).process.pid}
        found = holder(inner, port)
        assert found.kind is ProcessClass.DEAD_RUN
        left = found.process
        mark = left.environ["GPULAUNCH_SUPERVISOR"] if not isinstance(left.environ, Missing) else ""
        seen = holder(outer, port).process
        same = {"start_ticks": left.start_ticks, "mark": mark}
        refused = end(seen.pid, (), ppid=seen.ppid, **same)
        assert refused["result"] == "skipped: its run was started in another PID namespace"
        assert end(left.pid, inside(init), ppid=left.ppid, **same)["result"] == "ended"


@pytest.mark.parametrize("name", ["torchrun", "sh", "sleep"])
def test_a_rank_under_pid_1_of_a_container_is_not_chosen(port: int, tmp_path: Path, name: str) -> None:
    """`docker run IMAGE torchrun ...`: PID 1 is the launcher, whatever it is called."""
    with container(named_init(tmp_path, name), "-c", LAUNCHER, "stay", RANK, str(port)) as init:
        for facts in (look(port), look(port, inside(init))):
            found = holder(facts, port)
            assert found.kind in (ProcessClass.LIVE, ProcessClass.SUSPECT)
            assert found.process.pid not in chosen(facts)


def test_an_orphan_under_a_known_init_is_found_from_both_sides_and_ended(port: int, tmp_path: Path) -> None:
    with container(named_init(tmp_path, "init"), "-c", INIT, "-", LAUNCHER, "go", RANK, str(port)) as init:
        outer, inner = look(port), look(port, inside(init))
        assert {holder(outer, port).kind, holder(inner, port).kind} == {ProcessClass.ORPHAN}
        left = holder(inner, port).process
        done = end(left.pid, inside(init), start_ticks=left.start_ticks, ppid=left.ppid)
        assert done["result"] == "ended"


def test_where_proc_is_that_of_another_namespace_nothing_is_judged_and_nothing_is_ended(port: int) -> None:
    """`unshare --pid` without --mount-proc: what /proc calls 4242 is not what kill(4242) reaches."""
    bare = [word for word in PIDS if word != "--mount-proc"]
    facts = look(port, bare)
    assert isinstance(facts.processes, Missing)
    assert "another PID namespace" in facts.processes.reason
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        found = read_stat(process.pid)
        assert found is not None
        done = end(process.pid, bare, start_ticks=found.start_ticks, ppid=found.ppid)
        assert done["result"] == "skipped: /proc is that of another PID namespace"
        assert process.poll() is None
        process.kill()


def test_a_run_does_not_end_its_namesake_in_a_container(port: int, tmp_path: Path) -> None:
    """A host and a container on it may be two nodes of one run, and their homes may be called the same."""
    run_dir = tmp_path / "r1"
    run_dir.mkdir()
    with container(sys.executable, "-c", SUPERVISOR, "stay", RANK, str(port), RUN_DIR=str(run_dir)):
        theirs = holder(look(port), port).process.pid
        assert not has_run_marker(theirs, str(run_dir), read_supervisor_mark(str(run_dir)))
    env = {"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_RUN_DIR": str(run_dir), "GPULAUNCH_SUPERVISOR": mark_of(9, 9)}
    code = "import os; os.setsid(); import subprocess, sys; " + LAUNCHER
    others = find_run_processes(str(run_dir), set())  # what other tests keep below this process
    with subprocess.Popen(
        [sys.executable, "-c", code, "go", RANK, str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    ) as launcher:
        assert launcher.stdout is not None
        ours = int(launcher.stdout.readline())
        launcher.wait()
        found = find_run_processes(str(run_dir), set())
        assert {pid: ticks for pid, ticks in found.items() if pid not in others} == {
            ours: read_start_ticks(ours)
        }
        os.kill(ours, signal.SIGKILL)


def test_a_rank_is_of_its_run_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PTHREAD_EXIT], stdout=subprocess.PIPE) as half_dead:
        assert half_dead.stdout is not None
        half_dead.stdout.readline()
        until(lambda: Path(f"/proc/{half_dead.pid}/stat").read_text().split()[2] == "Z", 10.0)
        send_signal(half_dead.pid, find_run_processes(str(tmp_path), set())[half_dead.pid], signal.SIGKILL)
        assert half_dead.wait() == -signal.SIGKILL
    assert half_dead.pid not in find_run_processes(str(tmp_path), set())


def test_a_host_whose_processes_cannot_be_judged_is_not_called_clean(tmp_path: Path) -> None:
    bare = [word for word in PIDS if word != "--mount-proc"]
    done = subprocess.run(
        [*bare, sys.executable, "-m", "launcher.cli", "clean-zombies", "--dry-run"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "localhost: not everything could be judged" in done.stdout
    assert "the processes could not be read" in done.stdout
    assert "nothing left over" not in done.stdout
