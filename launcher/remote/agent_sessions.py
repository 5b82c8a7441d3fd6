"""Agents that have answered and wait on their hosts, for one more program over the same channel."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress

from launcher.config.inventory import HostEntry
from launcher.errors import ConnectionLost, GpulaunchError
from launcher.local.descriptors import limit_width, raise_descriptor_limit, read_descriptor_limit
from launcher.remote.fanout import WIDTH
from launcher.remote.program_source import build_stdin_command, frame_program
from launcher.transports.base import Closing, Connection, Stream

MOST_KEPT = 1024  # connections that stay open, with a thread each; hosts beyond are connected to again


class AgentSessions(Closing):
    """Agents' streams by host: what a second question costs is two messages, and no second interpreter.

    `opener` connects again to those of `entries` whose agents do not wait; as many of these connections as
    `width` are open at a time. Without it every host must be kept.
    """

    def __init__(
        self,
        opener: Callable[[HostEntry], Connection] | None = None,
        entries: Iterable[HostEntry] = (),
        *,
        width: int = WIDTH,
    ) -> None:
        self._entries = {entry.name: entry for entry in entries}
        raise_descriptor_limit(2 * min(len(self._entries), MOST_KEPT + width))
        self.most = max(1, min(MOST_KEPT, read_descriptor_limit() // 2 - 2 * width))
        self._kept: dict[str, tuple[Stream, ExitStack]] = {}
        self._opener = opener
        self._width = limit_width(width)
        self._again: deque[ExitStack] = deque()
        self._lock = threading.Lock()

    def add(self, host: str, stream: Stream, held: ExitStack) -> None:
        """Take an agent that has answered, and what closes its stream and gives its connection back."""
        self._kept[host] = stream, held

    def start_program(self, host: str, source: bytes, payload: bytes) -> Stream:
        """Start a program where the agent waits, with `payload` on its stdin; the stream stays ours to close.

        A host takes one program. A stream of a host that was connected to again is closed when `width` others
        have started after it. Raises HostError.
        """
        if host in self._kept:
            stream, _ = self._kept[host]
            stream.write(frame_program(source) + payload)
            return stream
        entry = self._entries.get(host)
        if entry is None or self._opener is None:
            raise ConnectionLost(host, "its agent no longer waits")
        return self._begin_again(self._opener(entry), entry.python, source, payload)

    def close(self) -> None:
        """End them all: their input ends, and the connections go back to where they came from."""
        while self._kept:
            _, (_, held) = self._kept.popitem()
            _close(held)
        while self._again:
            _close(self._again.popleft())

    def _begin_again(self, connection: Connection, python: str, source: bytes, payload: bytes) -> Stream:
        argv, stdin = build_stdin_command(python, source, payload)
        with ExitStack() as held:
            held.enter_context(connection)
            stream = held.enter_context(closing(connection.start(argv)))
            stream.write(stdin)
            with self._lock:
                self._again.append(held.pop_all())
                oldest = self._again.popleft() if len(self._again) > self._width else None
        if oldest is not None:
            _close(oldest)
        return stream


def _close(held: ExitStack) -> None:
    with suppress(GpulaunchError, OSError):
        held.close()
