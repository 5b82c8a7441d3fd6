"""An open connection lent to a program that would open its own, as rsync does with `--rsh`.

The program starts rsync_relay.py where it would start ssh; what that is to run on the host runs over the
connection that is open already. So host keys, jump hosts and passwords are asked once, and by our rules.
"""

import json
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from launcher.errors import HostError
from launcher.transports import rsync_relay
from launcher.transports.base import Connection, Stream

_START_S = 20.0
_LAST_S = 5.0
_POLL_S = 0.1
_CHUNK = 1 << 16
_MAX_COMMAND = 1 << 16


class Tunnel:
    """What the program is given, and what it did with it."""

    def __init__(self, connection: Connection, program: str, listener: socket.socket, meeting: Path) -> None:
        self.rsh = (sys.executable, "-IS", rsync_relay.__file__, str(meeting))
        self.sent = 0  # bytes to the host
        self._connection = connection
        self._program = program
        self._listener = listener

    def serve(self) -> None:
        """Wait for the bridge, start what it asks for, carry bytes both ways until that ends."""
        with suppress(HostError, OSError, ValueError), self._listener.accept()[0] as link:
            link.settimeout(None)
            try:
                self._carry(link)
            finally:
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)

    def _carry(self, link: socket.socket) -> None:
        stream = self._connection.start((self._program, *_command(link)[1:]))
        try:
            threading.Thread(target=self._send, args=(link, stream), daemon=True).start()
            while (data := stream.read(_POLL_S)) != b"":
                stream.read_stderr()
                link.sendall(data or b"")
        finally:
            stream.close()

    def _send(self, link: socket.socket, stream: Stream) -> None:
        with suppress(HostError, OSError):
            while data := link.recv(_CHUNK):
                stream.write(data)
                self.sent += len(data)
            stream.close_stdin()


@contextmanager
def open_tunnel(connection: Connection, program: str) -> Iterator[Tunnel]:
    """Lend a connection to a program for one command on the host, whose first word `program` replaces."""
    with (
        tempfile.TemporaryDirectory(prefix="gpulaunch-") as private,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        meeting = Path(private) / "socket"
        listener.bind(str(meeting))
        listener.listen(1)
        listener.settimeout(_START_S)
        loan = Tunnel(connection, program, listener, meeting)
        thread = threading.Thread(target=loan.serve, daemon=True)
        thread.start()
        try:
            yield loan
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes an accept that gets no connection
            thread.join(_LAST_S)


def _command(link: socket.socket) -> list[str]:
    line = b""
    while not line.endswith(b"\n"):
        byte = link.recv(1)
        if not byte or len(line) > _MAX_COMMAND:
            raise ValueError("the bridge named no command")
        line += byte
    return [str(word) for word in json.loads(line)]
