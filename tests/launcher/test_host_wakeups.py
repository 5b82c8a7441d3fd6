"""What wakes the processes of a run on its host, and what they read then."""

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost import procfs
from launcher.onhost.event_file import MOST, EventReader
from launcher.onhost.gauge import ranks
from launcher.onhost.gauge.ranks import ProcessTrees
from launcher.onhost.supervisor.daemon.ranks import RankTable
from launcher.onhost.supervisor.daemon.wakeup import Wakeup
from launcher.onhost.supervisor.requests.follow import CLIENT_WAIT_S, FollowSession, RunWatch
from tests.launcher.onhost_driver import WAIT, Driver, pids_of, up

LONG_S = 60.0
POLLED_S = 0.01


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Wakeup]:
    (tmp_path / "events.jsonl").touch()
    before = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGTERM)}
    yield Wakeup(str(tmp_path))
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def without_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", refuse)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child, which has said that it is there."""
    script = "import os, sys, time; os.fork() or time.sleep(60); print(flush=True); time.sleep(60)"
    started = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert started.stdout is not None
    started.stdout.readline()
    started.stdout.close()
    yield started
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def test_a_script_that_writes_events_without_end_delays_nothing_else(tmp_path: Path) -> None:
    path, count = tmp_path / "events.jsonl", MOST // 3
    path.write_bytes(b"{}\n" * count + b'{"event": "rank"}\n')
    with path.open("rb") as file:
        reader = EventReader(file.fileno())
        assert list(reader.read_new()) == []
        assert file.tell() == MOST
        assert list(reader.read_new()) == [{"event": "rank"}]


def returns_after(bell: Wakeup, change: Any) -> bool:
    """Return whether a change ends a wait that is as good as endless."""
    waits = threading.Timer(0.05, change)
    waits.start()
    until = time.monotonic() + LONG_S
    while (
        not bell._files_at and time.monotonic() < until
    ):  # the end of a child of an earlier test wakes it, too
        bell.wait(LONG_S, for_files=True)
    waits.join()
    return bool(bell._files_at)


def test_an_event_wakes_the_supervisor(bell: Wakeup, tmp_path: Path) -> None:
    def write() -> None:
        with (tmp_path / "events.jsonl").open("a") as file:
            file.write("{}\n")

    assert bell.hears_files
    assert returns_after(bell, write)


def test_a_deletion_in_the_run_directory_wakes_it_and_so_does_one_in_the_restored(
    bell: Wakeup, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    assert returns_after(bell, events.unlink)
    events.touch()
    bell.watch_files()
    bell._files_at = 0.0
    assert returns_after(bell, lambda: events.write_text("{}\n"))


def test_heartbeats_and_logs_do_not_wake_it(bell: Wakeup, tmp_path: Path) -> None:
    (tmp_path / "client.1").write_text("1.0")
    (tmp_path / "client.1").rename(tmp_path / "client")
    (tmp_path / "client.1").write_text("2.0")
    (tmp_path / "client.1").rename(tmp_path / "client")
    (tmp_path / "rank-0.log").write_text("step 1\n")
    bell.wait(POLLED_S, for_files=True)
    assert not bell._files_at


def test_without_inotify_it_polls(bell: Wakeup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_inotify(monkeypatch)
    polled = Wakeup(str(tmp_path))
    assert bell.hears_files
    assert not polled.hears_files
    polled.wait(POLLED_S, for_files=False)


def test_a_rank_that_cannot_be_watched_is_polled(
    bell: Wakeup, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = procfs.read_stat(child.pid)
    assert stat is not None
    event = {"event": "rank", "rank": 0, "pid": child.pid, "ticks": stat.start_ticks}
    ranks = RankTable(bell)
    descriptors = Path("/proc/self/fd")
    ranks.on_event(event)
    held = len([*descriptors.iterdir()])
    ranks.on_event(event)  # as a script may write it
    with suppress(KeyError):
        ranks.on_event({"event": "rank", "pid": child.pid})
    assert len([*descriptors.iterdir()]) == held
    assert ranks.are_watched
    monkeypatch.delattr(os, "pidfd_open")
    old = RankTable(bell)
    old.on_event(event)
    assert not old.are_watched
    assert not list(old.check())
    os.killpg(child.pid, signal.SIGKILL)
    until = time.monotonic() + LONG_S
    while not (codes := [ended.code for ended in old.check()]) and time.monotonic() < until:
        bell.wait(1.0, for_files=False)
    assert codes == [-signal.SIGKILL]


def state_of(pid: int) -> dict[str, Any]:
    return {who: [pid, 0] for who in ("supervisor", "guardian")}


@pytest.mark.parametrize(
    ("names", "news"),
    [
        (("rank-0.log", "events.jsonl", "state.json", "usage.jsonl"), True),
        (("client", "heartbeat", "steps-rank-0", "recent.jsonl"), False),
    ],
)
def test_a_follower_reads_when_what_it_sends_has_changed(
    tmp_path: Path, names: tuple[str, ...], *, news: bool
) -> None:
    watch = RunWatch(str(tmp_path), state_of(os.getpid()))
    assert not watch.has_news()
    for name in names:
        (tmp_path / ".new").write_text("1")
        (tmp_path / ".new").rename(tmp_path / name)
        assert watch.has_news() is news
        with (tmp_path / name).open("a") as file:
            file.write("1")
        assert watch.has_news() is news
        assert not watch.has_news()
    assert watch.fds


def test_a_follower_polls_after_a_deletion_and_after_the_end_of_a_process(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "rank-0.log").touch()
    watch = RunWatch(str(tmp_path), state_of(child.pid))
    (tmp_path / "rank-0.log").unlink()
    assert watch.has_news()
    assert not watch.fds
    watch = RunWatch(str(tmp_path), state_of(child.pid))
    assert not watch.has_news([])
    assert watch.has_news([watch.fds[-1]])
    assert not watch.fds


def test_a_follower_polls_where_the_kernel_watches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert not RunWatch(str(tmp_path), state_of(os.getpid())).fds
    monkeypatch.undo()
    without_inotify(monkeypatch)
    assert not RunWatch(str(tmp_path), state_of(os.getpid())).fds


def test_a_client_that_takes_nothing_is_not_asked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(*given: Any) -> tuple[list[int], list[int], list[int]]:
        waits.append(given[3])
        return [], [], []

    session = FollowSession(str(tmp_path), {})
    session._out = memoryview(b"a log of a rank")
    monkeypatch.setattr(select, "select", wait)
    assert not session._turn(idle=True)
    assert waits == [CLIENT_WAIT_S]


def test_the_gauge_reads_processes_of_others_once(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = procfs.read_stat(child.pid)
    assert stat is not None
    read: list[set[int]] = []

    def note(wanted: Iterable[int]) -> dict[int, procfs.ProcStat]:
        read.append(set(wanted))
        return procfs.read_stats(read[-1])

    monkeypatch.setattr(ranks, "read_stats", note)
    trees = ProcessTrees()
    trees.look_for_new()
    assert trees.table(1.0) == {}  # as before its rank has registered: the child counts as another's
    trees.add(0, child.pid, stat.start_ticks)
    family = trees.table(2.0).keys()
    assert len(family) == 2
    assert child.pid in family
    assert os.getpid() in read[-1]
    trees.look_for_new()
    assert trees.table(3.0).keys() == family
    assert family <= read[-1]
    assert os.getpid() not in read[-1]
    late = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        trees.look_for_new()
        trees.table(4.0)
        assert late.pid in read[-1]
        trees.look_for_new()
        trees.table(5.0)
        assert late.pid not in read[-1]
    finally:
        late.communicate()


def switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@pytest.mark.slow
def test_an_idle_run_wakes_its_supervisor_and_follower_seldom(run: Driver) -> None:
    run.start(WAIT)
    up(run)
    run.until(lambda: bool(run.alive))
    supervisor = pids_of(run.answer)[0]
    follower = next(
        pid for pid, text in run.processes().items() if pid not in pids_of(run.answer) and "start" in text
    )
    before, since, seen = [switches(supervisor), switches(follower)], run.alive[-1], len(run.alive)
    run.until(lambda: len(run.alive) > seen + 1)
    passed = run.alive[-1] - since
    rates = [
        (switches(pid) - count) / passed for pid, count in zip((supervisor, follower), before, strict=True)
    ]
    assert rates[0] < 3, rates  # it polled five times a second once
    assert rates[1] < 6, rates  # and the follower ten times
