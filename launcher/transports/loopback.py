"""A port of this machine's loopback, for programs of its user: the local end of `gpulaunch forward`."""

import socket
from contextlib import suppress

from launcher.transports.base import Closing

ADDRESS = "127.0.0.1"
_TURN_S = 0.5


class LoopbackConnection(Closing):
    """A connection that a local program has opened."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def receive(self, most: int) -> bytes:
        """Return the next bytes, b"" at the end, and when it is broken or closed."""
        try:
            return self._socket.recv(most)
        except OSError:
            return b""

    def send(self, data: bytes) -> bool:
        """Send all of it, however long that takes; return whether that worked."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def end(self) -> None:
        """Send no more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close; whatever waits for it in another thread returns."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class LoopbackListener(Closing):
    """Accepts connections of this machine only."""

    def __init__(self, port: int) -> None:
        """`port` 0 is any free one. Raises OSError."""
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((ADDRESS, port))
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(_TURN_S)
        self.port = int(self._socket.getsockname()[1])

    def accept(self) -> LoopbackConnection | None:
        """Return the next connection, None when none came for a moment. Raises OSError once it is closed."""
        try:
            found, _ = self._socket.accept()
        except TimeoutError:
            return None
        found.setblocking(True)
        return LoopbackConnection(found)

    def close(self) -> None:
        """Accept no more."""
        self._socket.close()
