"""What a preflight has opened the launch uses again: no second handshake, no second prompt."""

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TypeAlias, Unpack

from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.transports.base import Closing, CommandResult, Connection, RunOptions, Stream

OpenConnection: TypeAlias = Callable[[HostEntry], Connection]
"""Opens a connection to a host of the inventory, or raises the HostError that says why not."""


class ConnectionPool:
    """Opens hosts, and keeps what others only lend back instead of closing it."""

    def __init__(self, open_entry: OpenConnection) -> None:
        self._open = open_entry
        self._idle: dict[str, Connection] = {}
        self._lock = threading.Lock()

    def borrow(self, entry: HostEntry) -> Connection:
        """Return a connection that closing gives back, for the next to use. Raises HostError."""
        return _PooledConnection(self, entry.name, self.acquire(entry))

    def acquire(self, entry: HostEntry) -> Connection:
        """Return a kept connection, which is then the caller's to close, or open one. Raises HostError."""
        with self._lock:
            kept = self._idle.pop(entry.name, None)
        return kept if kept is not None else self._open(entry)

    def release(self, name: str, connection: Connection) -> None:
        """Take a connection back."""
        with self._lock:
            before = self._idle.pop(name, None)
            self._idle[name] = connection
        if before is not None:
            before.close()

    def close(self) -> None:
        """Close what is unused."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
        for connection in idle:
            connection.close()


class _PooledConnection(Closing):
    """A connection whose close() gives it back, unless it has shown an error."""

    def __init__(self, owner: ConnectionPool, name: str, connection: Connection) -> None:
        self._owner = owner
        self.name = name
        self._connection: Connection | None = connection

    def command_line(self, argv: Iterable[str]) -> str:
        """See base.Connection."""
        return self._own().command_line(argv)

    def run(self, argv: Iterable[str], **options: Unpack[RunOptions]) -> CommandResult:
        """See base.Connection."""
        return self._own().run(argv, **options)

    def start(self, argv: Iterable[str]) -> Stream:
        """See base.Connection."""
        return self._own().start(argv)

    def close(self) -> None:
        """Give it back; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._owner.release(self.name, connection)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._connection is not None:
            self._connection.close()
            self._connection = None
            return
        self.close()

    def _own(self) -> Connection:
        if self._connection is None:
            raise HostError(self.name, "the connection was given back")
        return self._connection
