"""An open connection lent to a program that would open its own, as rsync does with `--rsh`.

The program starts rsync_relay.py where it would start ssh; what that is to run on the host runs over the
connection that is open already. So host keys, jump hosts and passwords are asked once, and by our rules.
"""

import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import IO

from launcher.errors import HostError
from launcher.transports import rsync_relay
from launcher.transports.base import Connection, Stream

_START_S = 20.0
_LAST_S = 5.0
_POLL_S = 0.1
_CHUNK = 2 * ((1 << 15) - 64)  # two packets of SSH as large as sshd takes them: 64 KiB would be three
_MAX_COMMAND = 1 << 16
_MOST_FOLDER = 70  # bytes: a socket's path has 103, with `/gpulaunch-XXXXXXXX/socket`
_SHORT_FOLDER = "/tmp"  # noqa: S108 - what is made in it is a directory of the user's own


class Tunnel:
    """What the program is given, and what it did with it."""

    def __init__(self, connection: Connection, program: str, listener: socket.socket, meeting: Path) -> None:
        self.rsh = (sys.executable, "-IS", rsync_relay.__file__, str(meeting))
        self.sent = 0  # bytes to the host
        self._connection = connection
        self._program = program
        self._listener = listener

    def serve(self) -> None:
        """Wait for the relay, start what it asks for, carry bytes both ways until that ends."""
        with suppress(HostError, OSError, ValueError), self._listener.accept()[0] as link:
            link.settimeout(None)
            command, source, sink = _take_over(link)
            with sink, ExitStack() as unread:
                unread.enter_context(source)
                stream = self._connection.start((self._program, *command[1:]))
                with closing(stream):
                    threading.Thread(target=self._send, args=(source, stream), daemon=True).start()
                    unread.pop_all()  # the thread closes it when it reads no more
                    while (data := stream.read(_POLL_S)) != b"":
                        stream.read_stderr()
                        left = memoryview(data or b"")
                        while left:
                            left = left[sink.write(left) :]

    def _send(self, source: IO[bytes], stream: Stream) -> None:
        with suppress(HostError, OSError), source:
            while data := source.read(_CHUNK):
                stream.write(data)
                self.sent += len(data)
            stream.close_stdin()


@contextmanager
def open_tunnel(connection: Connection, program: str, start_s: float = _START_S) -> Iterator[Tunnel]:
    """Lend a connection for one command, whose word `program` replaces, to what comes within `start_s`."""
    with (
        tempfile.TemporaryDirectory(prefix="gpulaunch-", dir=_folder_of_sockets()) as private,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        meeting = Path(private) / "socket"
        listener.bind(str(meeting))
        listener.listen(1)
        listener.settimeout(start_s)
        loan = Tunnel(connection, program, listener, meeting)
        thread = threading.Thread(target=loan.serve, daemon=True)
        thread.start()
        try:
            yield loan
        finally:
            # An rsync that refuses its options never comes; a shutdown of the listener ends no accept.
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as nobody:
                nobody.setblocking(False)
                nobody.connect(str(meeting))
            thread.join(_LAST_S)


def _folder_of_sockets() -> str:
    """Return a directory whose path leaves room for a socket's."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) < _MOST_FOLDER else _SHORT_FOLDER


def _take_over(link: socket.socket) -> tuple[list[str], IO[bytes], IO[bytes]]:
    """Return the command, and the pipes from and to the program. Raises ValueError, OSError."""
    line, pipes, _, _ = socket.recv_fds(link, _MAX_COMMAND, 2)
    with ExitStack() as held:
        for pipe in pipes:
            held.callback(os.close, pipe)
            os.set_blocking(pipe, True)  # rsync makes the one that it reads non-blocking at both ends
        while not line.endswith(b"\n") and (more := link.recv(_MAX_COMMAND)):
            line += more
        command = [str(word) for word in json.loads(line)]
        source, sink = pipes
        held.pop_all()
    return command, os.fdopen(source, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0)
