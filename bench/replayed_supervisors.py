"""Supervisors of hosts that do not exist: they read the request of a launch and speak the protocol of a run.

Each answers as launcher/onhost/supervisor does, with the events that a real run of torch left, a rank's
numbers in place of its own: what the client sends, receives, judges and keeps is what it would with so many
machines. No thread is theirs: a frame is due at a time, and the client's own read waits for it.
"""

import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.follow.protocol import MARKER
from launcher.transports.base import Closing, CommandResult

_ALIVE_S = 2.0
_USAGE_S = _DIGEST_S = 5.0
_AGAIN_S = 0.02
_RUN_DIR = "/home/ada/.local/state/gpulaunch/runs/%s/%s"


@dataclass(frozen=True, slots=True)
class Story:
    """What happens in a replayed run. Times are seconds since its last node has started."""

    nodes: int
    steps: int  # a line of each rank's log
    step_s: float
    failing_rank: int | None = None  # that raises after the last step, while the others wait for it


class ReplayedFleet:
    """Opens a connection to each host, of one story, which begins when all have started."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.began: float | None = None
        self.stopped: set[str] = set()
        self._lock = threading.Lock()
        self._started = self._printed = 0

    def open(self, entry: HostEntry) -> "ReplayedConnection":
        """Return a way to the host of this name."""
        return ReplayedConnection(entry.name, self)

    def node_started(self) -> None:
        """Count a node; the last one begins the story."""
        with self._lock:
            self._started += 1
            if self._started == self.story.nodes:
                self.began = time.monotonic()

    def node_printed(self) -> None:
        """Count a node whose ranks have printed all their lines."""
        with self._lock:
            self._printed += 1

    @property
    def may_fail(self) -> bool:
        """Whether every node is where the story wants it when a rank raises, however slow this machine is."""
        return self._printed == self.story.nodes


class ReplayedConnection(Closing):
    """A way to one host, on which only a supervisor is started."""

    def __init__(self, name: str, fleet: ReplayedFleet) -> None:
        self.name = name
        self._fleet = fleet

    def command_line(self, argv: Iterable[str]) -> str:
        """See base.Connection."""
        return " ".join(argv)

    def start(self, argv: Iterable[str]) -> "ReplayedSupervisor":
        """See base.Connection."""
        words = tuple(argv)
        assert words[-2] == "start", words
        return ReplayedSupervisor(self.name, self._fleet)

    def run(self, argv: Iterable[str], **_: Any) -> CommandResult:
        """See base.Connection."""
        raise HostError(self.name, f"a replayed host runs no program: {next(iter(argv))}")

    def close(self) -> None:
        """See base.Connection."""


class ReplayedSupervisor:
    """One node: the request in, frames out, as a stream."""

    def __init__(self, host: str, fleet: ReplayedFleet) -> None:
        self._host = host
        self._fleet = fleet
        self._came = b""
        self._spec: Mapping[str, Any] = {}
        self._offsets: dict[str, int] = {}
        self._ready: deque[bytes] = deque()
        self._due: deque[tuple[float, Callable[[], Iterator[bytes]]]] = deque()
        self._planned = self._ended = False
        self._next_alive = time.monotonic() + _ALIVE_S
        self._wake = threading.Condition()

    def write(self, data: bytes) -> None:
        """See base.Stream: the program and its request, then the client's words."""
        self._came += data
        if not self._spec:
            self._read_request()
        *words, self._came = self._came.split(b"\n") if self._spec else [self._came]
        for word in words:
            self._obey(word.split(b" ", 2))
        with self._wake:
            self._wake.notify()

    def read(self, timeout_s: float) -> bytes | None:
        """See base.Stream."""
        end = time.monotonic() + timeout_s
        while True:
            self._advance()
            if self._ready:
                data = b"".join(self._ready)
                self._ready.clear()
                return data
            if self._ended:
                return b""
            now = time.monotonic()
            if now >= end:
                return None
            next_s = min(end, self._due[0][0] if self._due else end, self._next_alive) - now
            with self._wake:
                self._wake.wait(max(0.001, next_s))

    def can_write(self, data: bytes) -> bool:
        """See base.Stream."""
        del data
        return True

    def close_stdin(self) -> None:
        """See base.Stream."""

    def read_stderr(self) -> bytes:
        """See base.Stream."""
        return b""

    def wait(self, timeout_s: float) -> int | None:
        """See base.Stream."""
        del timeout_s
        return 0

    def close(self) -> None:
        """See base.Stream."""

    @property
    def _ranks(self) -> range:
        return range(self._spec["first_rank"], self._spec["first_rank"] + self._spec["ranks"])

    def _read_request(self) -> None:
        """Read as the bootstrap does: a line of Python, the program, the request; each with its length."""
        parts, rest = [], self._came.partition(b"\n")[2]
        for _ in range(2):
            size, _, rest = rest.partition(b"\n")
            if not size.isdigit() or len(rest) < int(size):
                return
            parts.append(rest[: int(size)])
            rest = rest[int(size) :]
        self._came = rest
        # The record of all nodes is for clients that look for the run; here it would be kept by each.
        head, _, tail = zlib.decompress(parts[1]).partition(b'], "schema": ')
        assert head.startswith(b'{"mode": "start", "spec": '), head[:80]
        self._spec = json.loads(b'{"spec": {"launch": {"schema": ' + tail)["spec"]
        now, run_dir = time.time(), _RUN_DIR % (self._host, self._spec["run_id"])
        state = {"run_id": self._spec["run_id"], "phase": "running", "run_dir": run_dir, "started": now}
        self._ready.append(MARKER + json.dumps({"state": state, "t": now}).encode() + b"\n")
        self._ready.extend(self._events("started", {"launcher": 4242}))
        self._fleet.node_started()

    def _obey(self, words: list[bytes]) -> None:
        if words[0] == b"detach":
            self._ready.extend(self._events("detached", {}))
        if words[0] in (b"stop", b"failed", b"hung") and self._host not in self._fleet.stopped:
            self._fleet.stopped.add(self._host)
            why = words[2].decode()
            self._due.clear()
            stopping = {"why": why, "grace_s": float(words[1]), "requested": True}
            self._ready.extend(self._events("stopping", stopping))
            self._ready.extend(self._end(dict.fromkeys(self._ranks, -15), why))

    def _advance(self) -> None:
        """Make the frames that are due."""
        now = time.monotonic()
        if self._fleet.began is not None and not self._planned:
            self._planned = True
            self._due.extend(self._plan(self._fleet.began))
        while self._due and self._due[0][0] <= now and not self._ended:
            _, what = self._due.popleft()
            if what == self._fail and not self._fleet.may_fail:
                self._due.append((now + _AGAIN_S, what))
                break
            self._ready.extend(what())
        if now >= self._next_alive and not self._ended:
            self._next_alive = now + _ALIVE_S
            self._ready.append(_frame({"alive": now, "t": time.time()}))

    def _plan(self, began: float) -> Iterator[tuple[float, Callable[[], Iterator[bytes]]]]:
        story = self._fleet.story
        yield began, lambda: self._of_ranks("rank")
        yield began, lambda: self._of_ranks("state")
        usage_at, digest_at = began + _USAGE_S, began + _DIGEST_S
        for step in range(story.steps):
            at = began + (step + 1) * story.step_s
            if at >= usage_at:
                usage_at += _USAGE_S
                yield at, self._usage
            if not self._spec["digest"]:
                yield at, lambda step=step: self._step(step, self._ranks)  # type: ignore[misc]
                continue
            if 0 in self._ranks:
                yield at, lambda step=step: self._step(step, (0,))  # type: ignore[misc]
            if at >= digest_at or step == story.steps - 1:
                digest_at += _DIGEST_S
                yield at, lambda step=step: self._digest(step)  # type: ignore[misc]
        end = began + (story.steps + 1) * story.step_s
        yield end, self._printed
        if story.failing_rank is None:
            yield end, lambda: self._end(dict.fromkeys(self._ranks, 0), "")
        elif story.failing_rank in self._ranks:
            yield end, self._fail

    def _of_ranks(self, event: str) -> Iterator[bytes]:
        world, gpus = self._spec["world_size"], self._spec["gpus"]
        for local, rank in enumerate(self._ranks):
            gpu = {"device": f"cuda:{local}", "gpu": gpus[local]} if gpus else {}
            seen = {"gpus": gpus} if gpus else {"visible": ""}
            fields: dict[str, Any] = {"rank": rank, "world_size": world}
            if event == "rank":
                fields |= {"pid": 5000 + local, "ticks": 1000, "local_rank": local, **seen}
            else:
                fields |= {"world_rank": rank, "backend": "nccl" if gpus else "gloo", **gpu}
            yield from self._events(event, fields)

    def _step(self, step: int, ranks: Iterable[int]) -> Iterator[bytes]:
        for rank in ranks:
            yield self._log(f"rank-{rank}.log", _line(step, rank))

    def _digest(self, step: int) -> Iterator[bytes]:
        ranks = {}
        for rank in self._ranks:
            last = _line(step, rank).decode().rstrip()
            ranks[str(rank)] = {
                "lines": step + 1,
                "last": last,
                "said": {"Warning: slow disk": 1} if step else {},
            }
        ranks.pop("0", None)
        yield _frame({"digest": ranks, "t": time.time()})

    def _printed(self) -> Iterator[bytes]:
        self._fleet.node_printed()
        yield from ()

    def _usage(self) -> Iterator[bytes]:
        ranks = {str(rank): {"rss_mib": 4000 + rank % 7, "cpu": 99.0} for rank in self._ranks}
        gpus = {gpu: {"busy": 97, "memory_mib": 60000, "power_w": 650.0} for gpu in self._spec["gpus"]}
        sample = {"schema": "gpulaunch.usage/1", "event": "usage", "t": time.time()}
        sample |= {"gpus": gpus, "ranks": ranks}
        yield self._log("usage.jsonl", json.dumps(sample).encode() + b"\n")

    def _fail(self) -> Iterator[bytes]:
        rank = self._fleet.story.failing_rank
        told = {"rank": rank, "type": "ValueError", "message": "loss is NaN", "location": "train.py:12"}
        yield from self._events("exception", told)
        if self._spec["digest"] and rank is not None:  # its log is released
            for step in range(self._fleet.story.steps):
                yield from self._step(step, (rank,))
        yield from self._end({each: 1 if each == rank else -15 for each in self._ranks}, "")

    def _end(self, codes: Mapping[int, int], why: str) -> Iterator[bytes]:
        for rank, code in codes.items():
            yield from self._events("rank_exit", {"rank": rank, "code": code, "stopping": bool(why)})
        launcher = max(codes.values()) if not why else -15
        yield from self._events("launcher_exit", {"code": launcher})
        ended = {
            "launcher_code": launcher,
            "ranks": {str(rank): code for rank, code in codes.items()},
            "remaining_pids": [],
            "why": why,
            "requested": bool(why),
            "since": time.time(),
            "port_free": True,
        }
        yield from self._events("ended", ended)
        state = {"run_id": self._spec["run_id"], "phase": "ended", "ended": time.time(), "exit": ended}
        yield _frame({"end": state, "t": time.time()})
        self._ended = True

    def _events(self, name: str, fields: Mapping[str, Any]) -> Iterator[bytes]:
        event = {"event": name, "t": time.time(), "m": time.monotonic(), **fields}
        yield self._log("events.jsonl", json.dumps(event).encode() + b"\n")

    def _log(self, log: str, data: bytes) -> bytes:
        offset = self._offsets.get(log, 0)
        self._offsets[log] = offset + len(data)
        return _frame({"log": log, "offset": offset, "size": len(data), "t": time.time()}, data)


def _line(step: int, rank: int) -> bytes:
    return b"step %d loss %.4f lr 0.0001\n" % (step, 2.5 - step / 100 - rank / 1e6)


def _frame(header: Mapping[str, Any], data: bytes = b"") -> bytes:
    return json.dumps(header).encode() + b"\n" + data
