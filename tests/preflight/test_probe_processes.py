"""Processes as the agent reads them: which matter, and what a row says of one."""

import os
import pty
import signal
import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from preflight.probes.fact import missing
from preflight.probes.namespaces import read_namespace_pids, read_own_namespace
from preflight.probes.processes import selection, table
from preflight.probes.processes.proc_pid import ProcessStat, open_files, read_stat, select_gpu_devices
from preflight.probes.processes.row import process_row
from preflight.probes.processes.selection import select_pids
from preflight.probes.processes.table import _supervisors, process_table
from preflight.probes.processes.walk import ProcessWalk
from preflight.probes.supervisor_mark import parse_mark

# --- which processes matter ---

GONE = 1 << 23  # above every pid that Linux gives: /proc has nothing of such processes


def stat(number: int, ppid: int = 1, **more: Any) -> ProcessStat:
    known: dict[str, Any] = {"comm": "python", "state": "S", "kernel": False, "start_ticks": number}
    plain = {"tty": False, "cpu_ticks": 0, "threads": 1}
    parent = GONE + ppid if ppid > 1 else ppid
    return ProcessStat(pid=GONE + number, ppid=parent, **{**plain, **known, **more})


def walk_of(*stats: ProcessStat, holders: tuple[int, ...] = (), gpu: tuple[int, ...] = ()) -> ProcessWalk:
    walk = ProcessWalk(frozenset())
    walk.stats = {1: stat(1)._replace(pid=1, ppid=0, comm="systemd"), **{each.pid: each for each in stats}}
    walk.kernel = {each.pid for each in stats if each.kernel}
    walk.holders = {"socket:[7]": [GONE + number for number in holders]}
    walk.gpu_files = {GONE + number: ["/dev/nvidia0"] for number in gpu}
    return walk


@pytest.mark.parametrize(
    ("walk", "chosen"),
    [
        (walk_of(stat(10)), set()),
        (walk_of(stat(10), holders=(10,)), {10}),
        (walk_of(stat(10), gpu=(10,)), {10}),
        *((walk_of(stat(10, state=state)), {10}) for state in "ZTtD"),
        *((walk_of(stat(10, state=state)), set()) for state in "RSI"),
        *((walk_of(stat(10, comm=comm)), {10}) for comm in ("pt_data_worker", "pt_data_pin", "pt_elastic")),
        (walk_of(stat(10, comm="nvidia-cuda-mps")), {10}),
        (walk_of(stat(10, state="D", kernel=True)), set()),
        (walk_of(stat(10, state="D", kernel=True), stat(11, state="T")), {11}),
        (walk_of(stat(10), stat(11, 10, state="T"), stat(12, 11), stat(13, 12), stat(14)), {10, 11, 12}),
        (walk_of(stat(10, comm="tini"), stat(11, 10, state="T"), stat(9, 10), stat(12, 10)), {9, 10, 11}),
        (walk_of(stat(10, comm="bash"), stat(11, 10, state="T"), stat(9, 10), stat(12, 10)), {10, 11}),
    ],
)
def test_what_holds_hangs_or_works_for_training_matters_with_its_family(
    walk: ProcessWalk, chosen: set[int]
) -> None:
    assert {pid - GONE for pid in select_pids(walk) if pid > GONE} == chosen
    assert (1 in select_pids(walk)) is bool(chosen)


@pytest.mark.parametrize("unreadable", [missing("denied", "no-permission"), []])
def test_open_files_that_cannot_be_read_are_no_reason(unreadable: Any) -> None:
    walk = walk_of(stat(10))
    walk.gpu_files = {GONE + 10: unreadable}
    assert select_pids(walk) == set()


def test_this_process_and_its_parent_are_no_part_of_it() -> None:
    walk = ProcessWalk(frozenset())
    mine = read_stat(os.getpid())
    walk.stats, walk.holders, walk.kernel = {mine.pid: mine._replace(state="D")}, {"x": [mine.pid]}, set()
    assert select_pids(walk) == set()
    child = stat(9, state="Z")._replace(ppid=mine.pid)
    walk.stats[child.pid], walk.holders = child, {}
    assert select_pids(walk) == set()
    above = mine._replace(pid=mine.ppid, ppid=1, state="D")
    walk.stats = {above.pid: above, child.pid: child._replace(ppid=above.pid), 1: stat(1)._replace(pid=1)}
    assert select_pids(walk) == set()


def test_a_launcher_above_the_agent_matters_only_for_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_is_launch", lambda each: each.comm == "gpulaunch")
    monkeypatch.setattr(os, "getppid", lambda: GONE + 12)
    client, other = stat(10, comm="gpulaunch"), stat(20, comm="gpulaunch")
    family = (client, stat(11, 10), stat(12, 11))
    assert select_pids(walk_of(*family)) == set()
    assert select_pids(walk_of(*family, other)) == {1, other.pid}
    assert select_pids(walk_of(*family, gpu=(10,))) == {1, client.pid, GONE + 11}


def test_all_processes_are_those_that_psutil_sees() -> None:
    before, walk, after = set(psutil.pids()), ProcessWalk(frozenset()), set(psutil.pids())
    assert before & after <= walk.stats.keys() <= before | after
    mine = walk.stats[os.getpid()]
    process = psutil.Process()
    assert (mine.ppid, mine.comm, mine.threads >= 1) == (process.ppid(), process.name()[:15], True)
    assert abs(mine.start_ticks / os.sysconf("SC_CLK_TCK") + psutil.boot_time() - process.create_time()) < 2
    assert mine.kernel is False
    assert walk.ancestors(os.getpid()) == [each.pid for each in process.parents()]
    assert os.getpid() not in walk.gpu_files
    assert walk.ancestors(GONE) == []


def test_a_socket_that_is_looked_for_has_its_holder() -> None:
    parent, child = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        parent.close()
        child.recv(1)
        os._exit(0)
    try:
        inode = f"socket:[{os.fstat(child.fileno()).st_ino}]"
        walk = ProcessWalk(frozenset({inode}))
        assert pid in walk.holders[inode]
        assert inode in open_files(read_stat(pid))
        assert open_files(read_stat(pid)._replace(state="Z", threads=1)) == set()
        table = process_table(walk, {pid})
        assert [row["pid"] for row in table["processes"]] == [pid]
        assert (table["total"], table["agent_pid"]) == (len(walk.stats), os.getppid())
        assert (table["ancestors"], table["unread"]) == (walk.ancestors(os.getppid()), [])
        assert process_table(walk, set())["source"] == "proc"
    finally:
        parent.close()
        child.close()
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("pid", "ticks", "found"), [(10, 10, {10, 9, 1}), (10, 11, set()), (9, 9, {9, 1}), (12, 10, set())]
)
def test_a_supervisor_is_found_by_its_pid_and_start(pid: int, ticks: int, found: set[int]) -> None:
    walk = walk_of(stat(9), stat(10, 9))
    here = f"{read_own_namespace('pid')}:{read_own_namespace('time')}"
    rows = [{"environ": {"GPULAUNCH_SUPERVISOR": f"boot:{here}:{GONE + pid}:{ticks}"}}]
    assert {each - GONE if each > 1 else each for each in _supervisors(walk, rows)} == found


def test_gpu_devices_are_those_of_nvidia_and_of_the_render_nodes() -> None:
    paths = {"/dev/nvidia0", "/dev/dri/renderD128", "/dev/nvidiactl", "/dev/null", "/dev/drix"}
    assert select_gpu_devices(paths) == ["/dev/dri/renderD128", "/dev/nvidia0", "/dev/nvidiactl"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("b:1:2:3:4", ("b", "1", "2", 3, 4)),
        ("b:1:2:0:4", None),
        ("b:1:2:1:0", ("b", "1", "2", 1, 0)),
        ("b:1:2:3", None),
        ("b:1:2:3:4:5", None),
        (f"{'b' * 64}:1:2:3:4", ("b" * 64, "1", "2", 3, 4)),
        (f"{'b' * 65}:1:2:3:4", None),
        ("b:1:2:12345678901:4", None),
    ],
)
def test_a_mark_has_five_parts(text: str, known: tuple[str, str, str, int, int] | None) -> None:
    assert parse_mark(text) == known


def test_a_process_has_its_pid_in_its_own_namespace_last() -> None:
    assert read_namespace_pids(os.getpid())[0] == os.getpid()
    assert read_own_namespace("pid") == str(Path("/proc/self/ns/pid").stat().st_ino)
    assert read_own_namespace("nothing") == "0"


# --- processes ---


def test_a_row_has_the_age_and_the_wait_of_a_process() -> None:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)  # sleeps in the kernel until the test ends
        os._exit(0)
    try:
        while read_stat(child).state != "S":
            time.sleep(0.01)
        time.sleep(0.05)
        row = process_row(read_stat(child), [], None)
        assert row is not None
        assert 0.03 <= row["age_s"] < 60
        assert isinstance(row["wchan"], str)
        assert row["namespace_pids"][-1] > 0
        assert row["cwd"] == str(Path.cwd())
    finally:
        os.close(write_end)
        os.waitpid(child, 0)
        os.close(read_end)
    assert process_row(ProcessStat(child, "", "S", 1, False, False, 0, 1, 0), [], None) is None


def test_the_age_of_a_process_is_given_in_hundredths_of_a_second() -> None:
    own = read_stat(os.getpid())
    rows = [process_row(own._replace(start_ticks=own.start_ticks - back), [], None) for back in range(12)]
    assert all(row is not None and row["age_s"] == round(row["age_s"], 2) for row in rows)


@pytest.mark.parametrize(
    ("pids", "start_ticks", "found"),
    [([900, 7], 55, {900, 1}), ([900, 8], 55, set()), ([7], 55, set()), ([900, 7], 54, set())],
)
def test_a_supervisor_of_another_namespace_is_found_by_its_pid_and_start_there(
    monkeypatch: pytest.MonkeyPatch, pids: list[int], start_ticks: int, found: set[int]
) -> None:
    walk = ProcessWalk(frozenset())
    stat = read_stat(os.getpid())
    walk.stats = {
        900: stat._replace(pid=900, ppid=1, start_ticks=55),
        1: stat._replace(pid=1, ppid=0, start_ticks=1),
    }
    monkeypatch.setattr(table, "read_namespace_pids", lambda _pid: pids)
    mark = f"boot:1:2:7:{start_ticks}"
    assert _supervisors(walk, [{"environ": {"GPULAUNCH_SUPERVISOR": mark}}, {"environ": {}}]) == found


def test_a_process_has_a_terminal_or_none() -> None:
    def terminal_of(child: int) -> bool:
        try:
            return read_stat(child).tty
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    alone = os.fork()
    if alone == 0:
        os.setsid()
        signal.pause()
    while os.getsid(alone) != alone:
        time.sleep(0.01)
    assert terminal_of(alone) is False
    child, terminal = pty.fork()
    if child == 0:
        os.write(1, b"x")
        signal.pause()
    try:
        os.read(terminal, 1)  # it has its terminal by then
        assert terminal_of(child) is True
    finally:
        os.close(terminal)
