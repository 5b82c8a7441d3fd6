"""Zombies, stopped processes, orphans and dead leaders, made for real and read by both readers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.onhost.supervisor.processes import mark_of
from preflight.facts.host import Process, ProcessTable
from preflight.facts.missing import Missing
from preflight.probes.assembly import list_named_pids
from preflight.probes.nvidia_smi.values import NOT_HELD
from preflight.probes.processes import table as table_module
from preflight.probes.processes.driver_pids import probe_named
from preflight.probes.processes.proc_pid import ProcessStat, open_files, read_stat
from preflight.probes.processes.process_fields import read_proc_head, read_psutil_head
from preflight.probes.processes.row import process_row
from preflight.probes.processes.selection import _commands
from preflight.probes.processes.walk import ProcessWalk
from preflight.probes.system import read_system_fact
from tests.preflight.agent_runs import run_agent

pytestmark = pytest.mark.slow

PTHREAD_EXIT = """
import ctypes, sys, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
held = open("/dev/null")
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
ORPHANER = """
import os, sys, time
if os.fork() == 0:
    os.environ.clear()
    print(os.getpid(), flush=True)
    time.sleep(60)
time.sleep(0.1)
"""


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _state(pid: int) -> str:
    return read_stat(pid).state


@contextmanager
def _ended(process: "subprocess.Popen[str]") -> Iterator[int]:
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@contextmanager
def sleeper(environ: dict[str, str] | None = None, *argv: str) -> Iterator[int]:
    with _ended(subprocess.Popen(argv or ["sleep", "60"], text=True, env=environ)) as pid:
        yield pid


@contextmanager
def zombie() -> Iterator[int]:
    process = subprocess.Popen(["true"])
    try:
        _until(lambda: _state(process.pid) == "Z")
        yield process.pid
    finally:
        process.wait()


@contextmanager
def stopped() -> Iterator[int]:
    with sleeper() as pid:
        os.kill(pid, signal.SIGSTOP)
        _until(lambda: _state(pid) == "T")
        yield pid


@contextmanager
def half_dead() -> Iterator[int]:
    """A leader that has ended while a thread of it lives: state Z, files open."""
    process = subprocess.Popen([sys.executable, "-c", PTHREAD_EXIT], stdout=subprocess.PIPE, text=True)
    with _ended(process) as pid:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        _until(lambda: _state(pid) == "Z")
        yield pid


@contextmanager
def orphan(name: str) -> Iterator[int]:
    argv = [sys.executable, "-c", ORPHANER]
    environ = {**os.environ, "LOCAL_RANK": "3", "GPULAUNCH_RUN_ID": name, "HF_TOKEN": "hf_secretsecretsecret"}
    done = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ)
    assert done.stdout is not None
    pid = int(done.stdout.readline())
    done.wait()
    done.stdout.close()
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


def bare_environment(folder: Path) -> str:
    """Return the interpreter of a virtual environment without packages."""
    real = Path(sys.executable).resolve()
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(real)
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    return str(folder / "bin" / "python")


@pytest.fixture(params=["psutil", "proc"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ProcessTable]:
    """Ask the agent with psutil there, and in an environment that has none."""
    python = sys.executable if request.param == "psutil" else bare_environment(tmp_path)

    def read() -> ProcessTable:
        processes = run_agent({}, python=python).facts.processes
        assert not isinstance(processes, Missing)
        assert processes.source == request.param
        return processes

    return read


def _row(table: ProcessTable, pid: int) -> Process:
    (row,) = [process for process in table.processes if process.pid == pid]
    return row


def test_a_true_zombie_holds_nothing(table: Callable[[], ProcessTable]) -> None:
    with zombie() as pid:
        row = _row(table(), pid)
    assert (row.state, row.threads, row.gpu_files, row.argv) == ("Z", 1, (), ())
    assert row.ppid == os.getpid()


def test_a_zombies_parent_is_sent_with_it(table: Callable[[], ProcessTable]) -> None:
    with zombie():
        assert _row(table(), os.getpid()).state in "RS"


def test_a_stopped_process_is_seen(table: Callable[[], ProcessTable]) -> None:
    with stopped() as pid:
        row = _row(table(), pid)
    assert (row.state, row.comm, row.argv) == ("T", "sleep", ("sleep", "60"))


def test_a_dead_leader_with_live_threads_shows_its_threads(table: Callable[[], ProcessTable]) -> None:
    with half_dead() as pid:
        row = _row(table(), pid)
        files = open_files(read_stat(pid))
    assert (row.state, row.threads) == ("Z", 2)
    assert "/dev/null" in files


def test_an_orphaned_rank_is_known_by_its_environment(table: Callable[[], ProcessTable]) -> None:
    with orphan("run-7") as pid:
        row = _row(table(), pid)
    assert not isinstance(row.environ, Missing)
    assert row.environ["LOCAL_RANK"] == "3"
    assert row.environ["GPULAUNCH_RUN_ID"] == "run-7"
    assert "HF_TOKEN" not in row.environ


def test_a_live_supervisor_is_sent_with_its_rank(table: Callable[[], ProcessTable]) -> None:
    with sleeper() as supervisor:
        ticks = read_stat(supervisor).start_ticks
        mark = mark_of(supervisor, ticks)
        with sleeper({"GPULAUNCH_SUPERVISOR": mark}, "/bin/sleep", "60"):
            assert _row(table(), supervisor).start_ticks == ticks
        with sleeper({"GPULAUNCH_SUPERVISOR": mark_of(supervisor, ticks + 1)}, "/bin/sleep", "60"):
            assert supervisor not in {row.pid for row in table().processes}
        elsewhere = mark.split(":")
        elsewhere[1] = "4026539999"
        with sleeper({"GPULAUNCH_SUPERVISOR": ":".join(elsewhere)}, "/bin/sleep", "60"):
            assert supervisor not in {row.pid for row in table().processes}


def test_a_gpu_holder_is_found_by_its_open_device(tmp_path: Path, table: Callable[[], ProcessTable]) -> None:
    del tmp_path
    device = next((path for path in ("/dev/dri/card0", "/dev/nvidia0") if os.path.exists(path)), "")  # noqa: PTH110
    if not device and os.geteuid() != 0:
        pytest.skip("needs a GPU device file, or root to make one")
    made = not device
    if made:
        device = f"/dev/nvidia{1000 + os.getpid()}"  # a null device under the name: the agent goes by names
        os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))
    try:
        with sleeper(
            None, sys.executable, "-c", f"f = open({device!r}, 'rb'); import time; time.sleep(60)"
        ) as pid:
            _until(lambda: device in open_files(read_stat(pid)))
            assert _row(table(), pid).gpu_files == (device,)
    finally:
        if made:
            os.unlink(device)  # noqa: PTH108


def test_the_agent_and_its_probes_are_not_leftovers(table: Callable[[], ProcessTable]) -> None:
    with stopped():
        read = table()
    assert read.agent_pid not in {row.pid for row in read.processes}
    assert not [row for row in read.processes if row.ppid == read.agent_pid]
    assert os.getpid() in read.ancestors


def test_an_ordinary_process_is_not_sent(table: Callable[[], ProcessTable]) -> None:
    with sleeper({}, "/bin/sleep", "60") as pid:
        read = table()
    assert pid not in {row.pid for row in read.processes}
    assert read.total > len(read.processes)


def test_psutil_and_proc_give_the_same_rows() -> None:
    with ExitStack() as scenes:
        pids = [
            scenes.enter_context(scene)
            for scene in (zombie(), stopped(), half_dead(), orphan("x"), sleeper())
        ]
        everyone = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
        compared = 0
        for pid in [*pids, *everyone]:  # ours are among everyone again
            try:
                stat = read_stat(pid)
                by_psutil = read_psutil_head(pid, psutil)
                by_proc = read_proc_head(stat)
                again = read_stat(pid)
            except OSError:
                assert pid not in pids
                continue
            moved = stat.cpu_ticks != again.cpu_ticks or stat.state != again.state or "R" in stat.state
            moved = moved or stat.comm != again.comm  # a worker of the kernel has the name of its work
            if moved:
                continue
            assert by_psutil == by_proc
            compared += pid in pids
    assert compared >= len(pids)


def test_a_name_with_brackets_and_blanks_is_read_whole(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with sleeper(None, str(program), "60") as pid:
        _until(lambda: read_stat(pid).comm == "a) R 1 (b")
        assert read_stat(pid).ppid == os.getpid()


def test_processes_that_only_nvml_names_are_looked_up() -> None:
    with sleeper({}, "/bin/sleep", "60") as pid:
        own = {"pid": 1, "kind": "compute", "used_mib": 1, "name": "x"}
        gone = {**own, "pid": 2**22 + 1}
        answer = {
            "processes": {"source": "proc", "processes": [{"pid": 1}]},
            "gpus": [{"processes": [own, gone, {**own, "pid": pid}]}, {"processes": NOT_HELD}],
        }
        assert list_named_pids(answer) == {pid, gone["pid"]}
        sent: dict[str, list[dict[str, object]]] = {}
        probe_named(sent.__setitem__, answer)
    assert pid in {row["pid"] for row in sent["named"]}
    assert gone["pid"] not in {row["pid"] for row in sent["named"]}


def test_a_mark_that_somebody_made_up_hides_no_other_process(table: Callable[[], ProcessTable]) -> None:
    """Anybody may start a process with such an environment, and root asks about all of them."""
    numbers = ["b:²:1", "::", ":".join("²" * 5), f"b:1:1:{'9' * 400}:1", "b:1:1:1:1:1", "b:1:1:-1:1"]
    with ExitStack() as scene:
        pids = {
            scene.enter_context(sleeper({"GPULAUNCH_RUN_ID": "r", "GPULAUNCH_SUPERVISOR": mark}))
            for mark in (*numbers, "\udcff:1", "x" * 100_000)
        }
        pids.add(scene.enter_context(stopped()))
        read = table()
    assert pids <= {row.pid for row in read.processes}
    assert read.unread == ()


def test_what_one_process_carries_is_sent_in_part_only(table: Callable[[], ProcessTable]) -> None:
    """A thousand processes with megabytes in each variable must not make an answer that nobody reads."""
    code = "import time; print('up', flush=True); time.sleep(60)"
    environ = {"RANK": "7" * 100_000, "TORCHELASTIC_RUN_ID": "x" * 100_000}
    with sleeper(environ, sys.executable, "-c", code, *["y" * 100_000] * 5) as pid:
        row = _row(table(), pid)
    assert not isinstance(row.environ, Missing)
    assert not isinstance(row.argv, Missing)
    assert sum(map(len, row.argv)) <= 4096
    assert sum(map(len, row.environ.values())) <= 2048


def test_a_process_that_cannot_be_made_out_is_one_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def row_of(stat: ProcessStat, *rest: Any) -> Any:
        if stat.pid == odd:
            raise ValueError("an odd process")
        return process_row(stat, *rest)

    monkeypatch.setattr(table_module, "process_row", row_of)
    with stopped() as odd, stopped() as other:
        walk = ProcessWalk(frozenset())
        sent = table_module.process_table(walk, {odd, other})
    assert [row["pid"] for row in sent["processes"]] == [other]
    assert [(each["pid"], each["reason"]) for each in sent["unread"]] == [(odd, "ValueError: an odd process")]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_process_of_another_person_is_no_service_by_its_name() -> None:
    """Where MPS runs, a GPU that takes one process only is no finding: nobody else may claim that it does."""
    code = "printf nvidia-cuda-mps > /proc/$$/comm; echo up; kill -STOP $$"
    for uid, is_named in ((60123, False), (os.getuid(), True)):
        process = subprocess.Popen(
            ["/bin/sh", "-c", code], user=uid, text=True, stdout=subprocess.PIPE, cwd="/"
        )
        with _ended(process) as pid:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            assert read_stat(pid).comm == "nvidia-cuda-mps"
            system = read_system_fact(ProcessWalk(frozenset()), time.monotonic())
        assert system["mps_control"] is is_named


def test_a_supervisor_that_proc_hides_is_not_gone() -> None:
    """With hidepid, /proc shows no process that one may not trace; the kernel tells that it is there."""
    with sleeper() as supervisor, sleeper() as late:
        marks = [{"environ": {"GPULAUNCH_SUPERVISOR": mark_of(pid, 1)}} for pid in (supervisor, 4194303)]
        walk = ProcessWalk(frozenset())
        del walk.stats[supervisor], walk.stats[late]
        assert table_module._supervisors(walk, marks) == set()
    assert {pid: str(error) for pid, error in walk.unread.items()} == {
        supervisor: "it exists, but /proc does not show it"
    }


def test_the_command_that_an_init_runs_is_its_oldest_child(tmp_path: Path) -> None:
    program = tmp_path / "tini"
    program.symlink_to(sys.executable)
    code = (
        "import subprocess, time\n"
        "first = subprocess.Popen(['sleep', '60']); time.sleep(0.05)\n"
        "second = subprocess.Popen(['sleep', '60']); print(first.pid, second.pid, flush=True); first.wait()\n"
    )
    process = subprocess.Popen([program, "-c", code], stdout=subprocess.PIPE, text=True)
    with _ended(process) as init:
        assert process.stdout is not None
        first, second = map(int, process.stdout.readline().split())
        assert _commands(ProcessWalk(frozenset()), {init}) == {first}
        for pid in (first, second):
            os.kill(pid, signal.SIGKILL)
