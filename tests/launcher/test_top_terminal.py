"""`gpulaunch top` for real: its monitor on a simulated NVML, lost and hung hosts, a pseudo-terminal."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import ConnectionLost
from launcher.remote import rpc
from launcher.remote.program_source import build_stdin_command, read_program_source
from launcher.top import host_monitor
from launcher.top.fleet import Fleet
from launcher.top.full_screen import FullScreen
from launcher.top.monitor_answer import parse_answer
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection
from tests.lab.silicon import Profile, load_profile, stage
from tests.lab.silicon.ask import environment
from tests.lab.silicon.profile import ListedProcess
from tests.launcher.terminal import CHECKOUT
from tests.launcher.top_screen import ALTERNATE, NORMAL, Seen
from tests.users import own_gpus

pytestmark = pytest.mark.slow

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler")
TITLE = "\x1b]0;pwned\x07"


def l40s(home: Path, pid: int = 0, *, name: str = "NVIDIA L40S") -> Profile:
    """Two L40S; a process holds the first, which is hot."""
    resting = load_profile("2xl40s")
    values = {"memory.used_mib": "30123", "utilization.gpu": "97", "temperature.gpu_c": "83", "name": name}
    held = (ListedProcess(pid, "C", 30000, "python"),) if pid else ()
    first = replace(resting.gpus[0], values={**resting.gpus[0].values, **values}, processes=held)
    return own_gpus(replace(resting, gpus=(first, resting.gpus[1])), home)


class Monitor:
    """The monitor as a process here, and its answers."""

    def __init__(self, env: dict[str, str]) -> None:
        argv, stdin = build_stdin_command(
            sys.executable, read_program_source("monitor"), b"", name="monitor.py"
        )
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.write(stdin)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def watch(self, gpus: list[str], run_dir: Path) -> None:
        run = {"run_id": "r", "run_dir": str(run_dir), "rank": 0}
        self.write(rpc.encode_line({"every_s": 0.2, "gpus": gpus, "runs": [run]}))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"\n"
        found: dict[str, Any] = json.loads(self.process.stdout.readline().partition(b" ")[2])
        parse_answer("a", found)
        return found


@needs_cc
def test_the_monitor_tells_numbers_changes_of_processes_and_the_progress_of_runs(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "600"])
    profile = l40s(tmp_path, child.pid)
    uuids = [gpu.values["uuid"] for gpu in profile.gpus]
    (tmp_path / "rank-0.log").write_text("step 1/9\n")
    (tmp_path / "state.json").write_text("{}")
    monitor = Monitor(environment(stage(profile, tmp_path / "silicon")))
    try:
        monitor.watch(uuids, tmp_path)
        first = monitor.answer()
        parsed = parse_answer("a", first)
        sample = parsed.gpus[uuids[0]]
        limit = (
            int(profile.gpus[0].values["power_limit_mw"]) / 1000
            if "power_limit_mw" in profile.gpus[0].values
            else None
        )
        assert (sample.busy_percent, sample.used_mib, sample.temperature_c) == (97.0, 30123.0, 83.0)
        assert limit is None or sample.power_limit_w == limit
        assert parsed.gpus[uuids[1]].throttle == ("idle",)
        assert (parsed.request, parsed.missing, parsed.runs["r"].tail) == (1, "", "step 1/9\n")
        with (tmp_path / "rank-0.log").open("a") as log:
            log.write("step 2/9\n")
        (tmp_path / "steps-rank-0").write_text("2")
        second = monitor.answer()
        while not second["runs"] or second["runs"]["r"]["step"] is None:
            second = monitor.answer()
        assert (second["gpus"], second["runs"]["r"]["tail"][-9:]) == ({}, "step 2/9\n")
        assert second["watch"] == first["watch"]
        child.kill()  # a zombie from now on: its parent does not wait for it
        assert monitor.answer()["watch"] != first["watch"]
        assert monitor.process.stdin is not None
        monitor.process.stdin.close()
        assert monitor.process.wait(30) == 0
    finally:
        monitor.close()
        child.kill()
        child.wait()


def local(name: str) -> Connection:
    return LocalConnection(Endpoint(name, "local", ""))


def until(holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def test_a_hung_host_delays_nobody_and_a_lost_one_is_connected_to_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(host_monitor, "FIRST_RETRY_S", 0.1)
    opened: dict[str, list[Connection]] = {"good": [], "hung": [], "lost": []}
    ended = threading.Event()

    def opener(entry: HostEntry) -> Connection:
        if entry.name == "hung":
            ended.wait(60)
            raise ConnectionLost("hung", "no answer")
        opened[entry.name].append(local(entry.name))
        return opened[entry.name][-1]

    for name in opened:
        (tmp_path / f"python-{name}").symlink_to(sys.executable)
    entries = [HostEntry(name, python=str(tmp_path / f"python-{name}")) for name in opened]
    try:
        with Fleet(entries, opener, every_s=0.5, width=8) as fleet:
            fleet.start()

            def phases() -> dict[str, str]:
                return {host.name: host.phase for host in fleet.view().hosts}

            until(lambda: (phases()["good"], phases()["lost"]) == ("live", "live"))
            assert phases()["hung"] == "connecting"
            until(lambda: fleet.state("lost").heard_at > fleet.state("lost").facts_at)  # the monitor answers
            held = fleet.open(entries[2])
            assert held.run(["true"]).exit_status == 0
            held.close()
            assert len(opened["lost"]) == 1, "the connection that is held is used"
            fleet._monitors["lost"]._retry_s = 0.1
            (monitor,) = monitors_below("python-lost")
            os.kill(monitor, signal.SIGKILL)
            until(lambda: len(opened["lost"]) == 2 and phases()["lost"] == "live")
            assert (phases()["good"], len(opened["good"])) == ("live", 1)
    finally:
        ended.set()
    until(lambda: not monitors_below("python-"))


def monitors_below(python: str) -> list[int]:
    """Return the programs that this process runs with an interpreter of this name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                command = path.with_name("cmdline").read_bytes()
                found += [int(path.parent.name)] if python.encode() in command else []
    return found


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Callable[..., Seen]]:
    started: list[Seen] = []

    def start(env: dict[str, str], *words: str) -> Seen:
        (tmp_path / "home").mkdir(exist_ok=True)
        hosts = {"hosts": {"localhost": {"python": sys.executable}}}
        (tmp_path / "home" / "hosts.yaml").write_text(json.dumps(hosts))
        started.append(Seen(tmp_path / "home", env, *words))
        return started[-1]

    yield start
    for each in started:
        each.close()


@needs_cc
def test_at_a_terminal_pages_keys_and_dialogs_work_and_the_terminal_comes_back(
    seen: Callable[..., Seen], tmp_path: Path
) -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        profile = l40s(tmp_path, child.pid, name=f"L40S {TITLE}")
        metrics = tmp_path / "top.prom"
        env = environment(stage(profile, tmp_path / "silicon"))
        top = seen(env, "localhost", "--interval", "0.5", "--prometheus", str(metrics))
        top.until("29.4/45G")
        assert "1 host  2 GPUs: " in top.text
        assert TITLE.encode() not in top.raw
        top.press("\r")
        top.until("processes on localhost, GPU 0")
        top.press("\x1b")
        top.until("order: host")
        top.press("f")
        top.until("shown: free")
        assert "29.4/45G" not in top.text
        top.press("s")
        top.until("only such a run has stacks")
        top.press("z")
        top.until("goes back to the table", declines=True)
        assert b"localhost: " in top.raw  # leftovers of this machine may have moved it off the screen
        top.press("\n")
        top.until("shown: free")
        top.resize(5, 30)
        os.kill(top.pid, signal.SIGWINCH)
        top.until("gpulaunch top")
        assert 'gpulaunch_gpu_memory_used_bytes{host="localhost",gpu="0"' in metrics.read_text()
        os.kill(top.pid, signal.SIGTERM)
        assert top.end() == 130
        assert b"[?25l" in top.raw
    finally:
        child.kill()
        child.wait()


def test_an_exception_gives_the_terminal_back() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r+b", buffering=0) as raw, open(theirs, "w", closefd=False) as stream:
        before = termios.tcgetattr(raw)
        screen = FullScreen(stream, stream)
        with suppress(ZeroDivisionError), screen.take_terminal():
            screen.draw([[("1", "a line")]])
            assert termios.tcgetattr(raw) != before
            raise ZeroDivisionError
        assert termios.tcgetattr(raw) == before
        shown = b""
        while select.select([ours], [], [], 0.2)[0]:
            shown += os.read(ours, 65536)
    os.close(ours)
    assert ALTERNATE in shown
    assert shown.rindex(NORMAL) > shown.index(b"a line")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@needs_cc
def test_without_a_terminal_there_is_one_table(tmp_path: Path) -> None:
    env = {
        **environment(stage(l40s(tmp_path), tmp_path / "silicon")),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": "",
    }
    argv = [sys.executable, "-m", "launcher.cli", "top", "localhost"]
    done = subprocess.run(
        argv, cwd=CHECKOUT, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    titles, first, *_, last = done.stdout.splitlines()
    assert titles.split()[0] == "HOST"
    assert {"USE", "MEMORY"} < set(titles.split())
    assert (first.split()[0], "NVIDIA L40S" in first) == ("localhost", True)
    assert last.startswith("1 host  2 GPUs: ")
