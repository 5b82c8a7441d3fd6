"""What is ended on a host is proven there once more: the mark of a dead run, and who carries it."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost import kill_leftovers
from launcher.onhost.answer import MARKER
from launcher.onhost.supervisor.processes import mark_of, read_start_ticks
from launcher.remote.program_source import read_program_source
from tests.lab import needs

GONE = 4194303  # the largest pid that Linux ever gives


class Run:
    """A process that carries the mark of a supervisor."""

    def __init__(self, mark: str) -> None:
        env = {"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": mark}
        self.process = subprocess.Popen(["/bin/sleep", "60"], env=env)
        self.mark = mark
        environ = Path(f"/proc/{self.process.pid}/environ")
        deadline = time.monotonic() + 30
        while b"GPULAUNCH_SUPERVISOR=" not in environ.read_bytes():  # the kernel lays it out last
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def victim(self, **other: Any) -> dict[str, Any]:
        pid = self.process.pid
        same = {"pid": pid, "start_ticks": read_start_ticks(pid), "ppid": os.getpid(), "uid": os.getuid()}
        return {**same, "mark": self.mark, **other}

    def reaped(self, **other: Any) -> str:
        (record,) = kill_leftovers.kill_processes([self.victim(**other)], 5.0, 5.0)
        return str(record["result"])


@pytest.fixture
def left() -> Iterator[Run]:
    run = Run(mark_of(GONE, 5))
    yield run
    run.process.kill()
    run.process.wait()


@pytest.fixture
def live() -> Iterator[Run]:
    run = Run(mark_of(os.getpid(), read_start_ticks(os.getpid())))
    yield run
    run.process.kill()
    run.process.wait()


def test_what_a_dead_run_left_is_ended(left: Run) -> None:
    assert left.reaped() == "ended"
    assert left.process.wait() == -signal.SIGTERM


def test_more_processes_are_waited_for_than_a_select_takes(left: Run) -> None:
    needs.require_descriptors(1100)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2048), hard))
    held = kill_leftovers.ProcessHandle(left.victim())
    pidfd = os.pidfd_open(left.process.pid)
    try:
        held.fd = fcntl.fcntl(pidfd, fcntl.F_DUPFD_CLOEXEC, 1024)  # as the thousandth victim has
        assert kill_leftovers.wait_all([held], 0.01) == [held]
    finally:
        held.close()
        os.close(pidfd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_a_live_supervisor_started_is_left_alone(live: Run) -> None:
    assert live.reaped() == "skipped: its supervisor lives"
    assert live.process.poll() is None


def test_a_mark_that_was_judged_and_is_not_carried_is_no_proof(live: Run) -> None:
    assert live.reaped(mark=mark_of(GONE, 5)) == "skipped: it does not carry the mark of its run any more"
    assert live.process.poll() is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_mark_of_another_boot_or_namespace_is_no_proof(place: int) -> None:
    words = mark_of(GONE, 5).split(":")
    words[place] = "1"
    run = Run(":".join(words))
    assert run.reaped() == "skipped: its run was started in another PID namespace"
    assert run.process.poll() is None
    run.process.kill()
    run.process.wait()


@pytest.mark.parametrize("words", ["²:1", "1", "-1:5", "9:²", f"{'9' * 40}:1"])
def test_a_mark_that_is_not_of_our_form_is_no_proof(words: str) -> None:
    run = Run(mark_of(1, 1)[: -len("1:1")] + words)
    assert run.reaped().startswith("skipped: ")
    assert run.process.poll() is None
    run.process.kill()
    run.process.wait()


def test_a_pidfd_holds_the_process_that_proc_names(left: Run) -> None:
    fd = os.pidfd_open(left.process.pid)
    try:
        assert kill_leftovers.is_held(left.process.pid, fd)
        assert not kill_leftovers.is_held(os.getpid(), fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    "changed", [{"uid": 4242}, {"ppid": 1}, {"start_ticks": 1}], ids=["owner", "parent", "identity"]
)
def test_what_changed_since_it_was_judged_is_left_alone(left: Run, changed: dict[str, int]) -> None:
    assert left.reaped(**changed).startswith("skipped: ")
    assert left.process.poll() is None


def test_the_program_answers_and_keeps_an_audit(left: Run, tmp_path: Path) -> None:
    request = {"victims": [left.victim()], "term_grace_s": 5, "kill_grace_s": 5, "note": "test"}
    done = subprocess.run(
        [sys.executable, "-c", read_program_source("kill_leftovers").decode()],
        input=json.dumps(request),
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout.removeprefix(f"\n{MARKER} "))
    assert [record["result"] for record in answer["records"]] == ["ended"]
    before, after = Path(answer["audit"]).read_text().splitlines()
    assert (json.loads(before)["result"], json.loads(after)["result"]) == ("about to signal", "ended")
