"""A host that prints without end, and a client whose terminal takes nothing: what waits is bounded."""

import json
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from launcher.errors import HostError
from launcher.follow import protocol
from launcher.follow.events import RunEvent
from launcher.follow.log_offsets import ResumePoint
from launcher.follow.node_client import QUEUE_LENGTH, NodeClient
from tests.launcher.run_plans import plan

PIECE = b"x" * 1000


class EndlessStream:
    """A supervisor's channel that always has one more piece of a log."""

    def __init__(self) -> None:
        self.reads = 0
        self.written: list[bytes] = []

    def read(self, _timeout_s: float) -> bytes:
        if not self.reads:
            self.reads += 1
            return protocol.MARKER + b"{}\n"
        header = {"log": "rank-0.log", "offset": len(PIECE) * (self.reads - 1), "size": len(PIECE), "t": 1.0}
        self.reads += 1
        return json.dumps(header).encode() + b"\n" + PIECE

    def read_stderr(self) -> bytes:
        return b""

    def write(self, data: bytes) -> None:
        self.written.append(data)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_client_that_shows_nothing_reads_no_further_and_says_that_it_lives() -> None:
    events: queue.Queue[RunEvent] = queue.Queue(QUEUE_LENGTH)
    planned = plan((None,))
    never = cast("Any", None)  # it is connected already
    start = ResumePoint()
    client = NodeClient(planned.run_id, planned.nodes[0], never, start, patience_s=9.0, events=events)
    stream = EndlessStream()
    client._stream = stream  # type: ignore[assignment]

    def carry() -> None:
        with suppress(HostError):
            client._carry(stream, lambda _: None)  # type: ignore[arg-type]

    thread = threading.Thread(target=carry, daemon=True)
    thread.start()
    wait_until(events.full)
    stream.written.clear()
    client._messages._sent_at = 0.0  # it is time to say so again
    wait_until(lambda: b"beat\n" in stream.written)
    assert stream.reads <= QUEUE_LENGTH + 2  # the marker, what waits in the queue, and what is at its door
    client._left = client._done = True  # who follows has gone
    thread.join(20.0)
    assert not thread.is_alive()
