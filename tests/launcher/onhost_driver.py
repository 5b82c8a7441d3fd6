"""Drives a real supervisor on this machine through the local transport, as the client does."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ConnectionLost
from launcher.follow import protocol
from launcher.onhost.event_file import parse_event
from launcher.onhost.supervisor.node import make_node_name
from launcher.remote import program_source
from launcher.remote.program_source import read_program_source
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection, LocalStream

# What accelerate does for us, without torch: starts ranks, each in a session of its own, and polls them as
# torch's elastic agent does. It reaps none of them, so that a slow supervisor sees how each ended, too.
LAUNCHER = """
import os, subprocess, sys, time
ranks = [
    subprocess.Popen(
        [sys.executable, *sys.argv[2:]],
        env=dict(os.environ, RANK=str(n), LOCAL_RANK=str(n), WORLD_SIZE=sys.argv[1]),
        start_new_session=True,
    )
    for n in range(int(sys.argv[1]))
]
def ended(rank):
    return os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
while not all(map(ended, ranks)):
    time.sleep(0.1)
os._exit(any(ended(rank).si_status for rank in ranks))
"""
# Out of the tree by every way there is but the group: its parent is killed first, its environment is empty.
RUNAWAY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        home = os.environ["XDG_STATE_HOME"]
        sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
        os.execve(sys.executable, sleep, {"XDG_STATE_HOME": home})
    os._exit(0)
os.wait()
print("up", flush=True)
time.sleep(60)
"""
# A rank with a worker, and a daemon that has left session, group and parent, and cleaned its environment.
FAMILY = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
{RUNAWAY}
"""
PYTHON = sys.executable
ALONE = [PYTHON, "{run_dir}/rank.py", "{run_dir}/s/x.py"]  # as the one rank of a world is started
GONE_S = 30.0  # what is not ended sleeps for a minute: it is still there then
PATIENCE_S = 60.0  # a machine that runs other tests too may need a while to start an interpreter

CGROUP = read_program_source("run_cgroup").decode()
NO_GROUP = CGROUP.replace('PREFIX = "gpulaunch-"', 'PREFIX = "no/such/"')


@cache
def supervisor_with(cgroup: str) -> bytes:
    """Return the supervisor as it is sent, with this text in the place of onhost/run_cgroup.py."""
    bare = program_source.strip_docstrings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            program_source,
            "strip_docstrings",
            lambda path: cgroup if path.name == "run_cgroup.py" else bare(path),
        )
        source = read_program_source.__wrapped__("supervisor")
    return program_source.compress_program(source, "supervisor.py")


class Driver:
    """One run on this machine: its channel, and what came over it."""

    def __init__(self, state_home: Path, run_id: str = "r1") -> None:
        self.home = state_home
        self.run_id = run_id
        self.run_dir = state_home / "gpulaunch" / "runs" / make_node_name() / run_id
        self.connection = LocalConnection(Endpoint("here", "local", ""))
        self.logs: dict[str, bytearray] = {}
        self.events: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None
        self.digests: dict[str, dict[str, Any]] = {}
        self.alive: list[float] = []  # when the follower said only that it lives
        self.stream: LocalStream | None = None
        self._rest = b""  # of a line of events.jsonl
        self._beat = 0.0
        self.prefix: tuple[str, ...] = ()  # what starts the supervisor, in front of all else
        self.cgroup = NO_GROUP  # ancestry and markers find the processes, as on hosts without groups

    def start(
        self, script: str, *args: str, ranks: int = 1, disconnect_s: float | None = 30.0, **spec: Any
    ) -> None:
        """Start a run of `script` (its text) in `ranks` ranks; wait for the supervisor's answer."""
        whole: dict[str, Any] = {
            "run_id": self.run_id,
            "argv": [
                PYTHON,
                "{run_dir}/launch.py",
                str(ranks),
                "{run_dir}/rank.py",
                "{run_dir}/s/x.py",
                *args,
            ],
            "env": {},
            "unset": [],
            "cwd": str(self.home),
            "files": [["launch.py", LAUNCHER], ["s/x.py", script]],
            "disconnect_timeout_s": disconnect_s,
            "main_port": None,
            "rank_source": read_program_source("rank").decode(),
            **spec,
        }
        self.open("start", protocol.encode_request({"mode": "start", "spec": whole}))

    def follow(self, offsets: dict[str, int]) -> None:
        """Connect again, from these offsets on."""
        self.open("follow", protocol.follow_request(self.run_id, offsets))

    def open(self, mode: str, body: bytes) -> None:
        """Open a channel with a request; wait for its answer."""
        argv = (
            *self.prefix,
            "env",
            f"XDG_STATE_HOME={self.home}",
            *protocol.build_supervisor_argv(PYTHON, mode, self.run_id),
        )
        self.hang_up()
        self.stream = self.connection.start(argv)
        self.stream.write(supervisor_with(self.cgroup) + body.removeprefix(protocol._supervisor()))
        self.reader = protocol.FrameReader()
        self.answer = {}
        self.until(lambda: bool(self.answer))

    def say(self, words: str) -> None:
        """Send one line to the follower."""
        assert self.stream is not None
        self.stream.write(words.encode() + b"\n")

    def hang_up(self) -> None:
        """Lose the connection."""
        if self.stream is not None:
            self.stream.close()
        self.stream = None

    def until(self, done: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        """Follow until something is so; fails the test when it does not become so."""
        deadline = time.monotonic() + timeout_s
        while not done():
            assert self.stream is not None
            assert time.monotonic() < deadline, (self.answer, self.events, self.logs)
            data = self.stream.read(0.05)
            for frame in self.reader.feed(data or b""):
                self._take(frame)
            if self.answer and time.monotonic() - self._beat > 0.5:  # as a client does, however quiet it is
                self._beat = time.monotonic()
                with suppress(ConnectionLost):  # it may have refused and gone
                    self.say("beat")

    def event(self, name: str, timeout_s: float = PATIENCE_S, **fields: object) -> dict[str, Any]:
        """Wait for an event with these fields."""

        def found() -> list[dict[str, Any]]:
            return [e for e in self.events if e["event"] == name and fields.items() <= e.items()]

        self.until(lambda: bool(found()), timeout_s)
        return found()[0]

    def ended(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Follow to the end; return the last state."""
        self.until(lambda: self.end is not None, timeout_s)
        assert self.end is not None
        return self.end

    def log(self, name: str = "rank-0.log") -> bytes:
        """Return what has come of a log."""
        return bytes(self.logs.get(name, b""))

    def _take(self, frame: protocol.Frame) -> None:
        header = frame.header
        if not self.answer:
            self.answer = dict(header)
        elif "log" in header:
            log = self.logs.setdefault(header["log"], bytearray())
            assert header["offset"] == len(log), "bytes came twice or not at all"
            log += frame.data
            if header["log"] == "events.jsonl":
                *lines, self._rest = (self._rest + frame.data).split(b"\n")
                self.events += [event for line in lines if (event := parse_event(line))]
        elif "digest" in header:
            self.digests |= header["digest"]
        elif "alive" in header:
            self.alive.append(header["alive"])
        elif "end" in header:
            self.end = dict(header["end"])

    def processes(self) -> dict[int, str]:
        """Return the live processes of this run by the mark in their environment, and its two keepers."""
        found = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - procfs
            if not name.isdigit():
                continue
            try:
                environ = Path(f"/proc/{name}/environ").read_bytes()
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                command = (
                    Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue
            ours = f"XDG_STATE_HOME={self.home}".encode() in environ.split(b"\0")
            if ours and state not in "ZX":
                found[int(name)] = command[-60:]
        return found

    def gone(self, timeout_s: float = GONE_S) -> dict[int, str]:
        """Return what is still there of the run after this long, if anything."""
        deadline = time.monotonic() + timeout_s
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def kill_everything(self) -> None:
        """After a test: leave nothing, whatever has failed."""
        self.hang_up()
        for pid in self.processes():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue


def pids_of(answer: dict[str, Any]) -> tuple[int, int, int]:
    """Return supervisor, guardian and launcher of the answer to a start."""
    state = answer["state"]
    return state["supervisor"][0], state["guardian"][0], state["launcher"][0]


def text(words: Sequence[str]) -> str:
    """Return lines as a script."""
    return "\n".join(words) + "\n"


WAIT = "import time; print('up', flush=True); time.sleep(60)\n"


def up(run: Driver, ranks: int = 1) -> None:
    run.until(lambda: all(b"up" in run.log(f"rank-{n}.log") for n in range(ranks)))
