"""Hosts whose answers are made up, and what is read of them."""

import copy
import json
import queue
from collections.abc import Callable
from typing import Any, Self

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.follow.events import RunEvent
from launcher.follow.log_offsets import ResumePoint
from launcher.follow.node_client import NodeClient
from launcher.follow.protocol import MARKER
from launcher.transports.base import CommandResult, Connection, Stream
from tests.launcher.run_plans import plan

A, B = HostEntry("a", address="10.0.0.1"), HostEntry("b", address="10.0.0.2")
PLAN = plan((None,), (None,))
STATE = {
    "phase": "ended",
    "run_dir": "/r",
    "started": 1.0,
    "ended": 2.0,
    "exit": {"ranks": {"0": 3}, "why": "", "launcher_code": 0, "remaining_pids": [], "port_free": True},
}
RUN = {
    "run_id": PLAN.run_id,
    "spec": {"node_rank": 0, "nodes": 2, "first_rank": 0, "ranks": 1, "job": "j", "gpus": ["GPU-1"]},
    "state": STATE,
    "alive": False,
    "tail": "step 1 loss: 2",
    "client_age_s": 3.0,
    "usage": {"ranks": {"0": {"rss_mib": 1, "cpu": 2.0}}},
}
LIST = {"runs": [RUN, copy.deepcopy(RUN)], "user": "ana", "t": 9.0, "gpu_use": {"GPU-1": [1.0, 2.0]}}


class Sent(Stream):
    """A channel on which these bytes come, and then nothing."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, timeout_s: float | None = None) -> bytes | None:
        del timeout_s
        data, self._data = self._data, b""
        return data

    def write(self, data: bytes) -> None:
        pass

    def can_write(self, data: bytes) -> bool:
        return bool(data)

    def close_stdin(self) -> None:
        pass

    def read_stderr(self) -> bytes:
        return b""

    def wait(self, timeout_s: float | None = None) -> int | None:
        del timeout_s
        return 0

    def close(self) -> None:
        pass


class Host(Connection):
    """A host that answers everything with these bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def name(self) -> str:
        return "a"

    def command_line(self, argv: Any) -> str:
        return " ".join(argv)

    def run(self, argv: Any, **options: Any) -> CommandResult:
        del argv, options
        return CommandResult(0, self._data, b"")

    def start(self, argv: Any) -> Stream:
        del argv
        return Sent(self._data)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def frames(*documents: Any) -> bytes:
    """Return a supervisor's words: each with the bytes that it announces, where it announces any."""
    words = []
    for document in documents:
        size = document.get("size") if isinstance(document, dict) else 0
        data = b"x" * size if isinstance(size, int) and 0 < size < 1000 else b""
        words.append(json.dumps(document).encode() + b"\n" + data)
    return MARKER + b"".join(words)


def only_ours(read: Callable[[], object]) -> object:
    """Return what is read, or the error of ours that says why nothing is; any other error fails the test."""
    try:
        return read()
    except GpulaunchError as error:
        return error


def followed(*sent: bytes, wishes: dict[str, object] | None = None) -> list[RunEvent]:
    """Return what becomes of one connection to a host that sends this."""
    events: queue.Queue[RunEvent] = queue.Queue()
    host = Host(MARKER + b"".join(sent))
    running = ResumePoint(options=wishes or {})
    follower = NodeClient(PLAN.run_id, PLAN.nodes[0], lambda: host, running, patience_s=0.0, events=events)
    follower.run()
    return list(events.queue)
