"""forward: carry connections to a port of this host's loopback, all of them over one channel.

Frames in both directions, each a JSON header line and the `size` bytes that it announces:

    open ID          the client has a connection (from the client only)
    data ID, size    bytes of it
    ack ID, count    bytes that were passed on; a side has at most WINDOW bytes of a connection under way
    close ID         this side sends no more of it
    gone ID          it is over, in both directions
"""

import contextlib
import functools
import json
import os
import selectors
import socket
import time
from typing import Any, Callable

from ..files import read_json
from ..protocol import RequestRefused, encode_frame, send_header
from ..run_dir import SPEC

WINDOW = 256 << 10
PART = 32 << 10
MAX_CONNECTIONS = 128
MAX_HELD = 4 << 20  # of frames that wait for the client
MAX_HEADER = 1024
CONNECT_S = 5.0
LOOPBACK = ("127.0.0.1", "::1")


def serve(run_dir: str, request: dict[str, Any]) -> int:
    """Carry connections until the client is gone. Raises RequestRefused."""
    if not request.get("tensorboard"):
        port = int(request["port"])
        connect_port(port).close()
        return carry_connections(port)
    from ._tensorboard import TensorBoard

    with TensorBoard(read_json(os.path.join(run_dir, SPEC)) or {}, run_dir) as board:
        return carry_connections(board.port, board.connect)


def carry_connections(port: int, open_connection: Callable[[], socket.socket] | None = None) -> int:
    """Answer, then carry connections to the port."""
    send_header({"port": port, "t": time.time()})
    PortRelay(open_connection or functools.partial(connect_port, port)).run()
    return 0


def connect_port(port: int) -> socket.socket:
    """Connect to the port, by IPv4 or IPv6. Raises RequestRefused where nothing listens."""
    why = ""
    for address in LOOPBACK:
        try:
            return socket.create_connection((address, port), timeout=CONNECT_S)
        except OSError as error:
            why = why or (error.strerror or str(error))
    raise RequestRefused(
        "nothing accepts connections on port %d of its loopback: %s" % (port, why),
        "start a program that listens on it, or name another port; --tensorboard starts TensorBoard",
    )


class Carried:
    """One connection: its socket, and what is under way."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.waiting = bytearray()  # from the client, for the socket
        self.credit = WINDOW  # bytes that the client still takes
        self.client_closed = False
        self.ended = False  # the socket knows that the client sends no more
        self.host_closed = False


class PortRelay:
    """Single-threaded poll loop between the channel (stdin, stdout) and the sockets."""

    def __init__(self, open_connection: Callable[[], socket.socket], stdin: int = 0, stdout: int = 1) -> None:
        """`open_connection` raises RequestRefused where it cannot."""
        self._connect = open_connection
        self._in, self._out = stdin, stdout
        self._held = bytearray()  # for the client
        self._heard = bytearray()
        self._carried: dict[int, Carried] = {}

    def run(self) -> None:
        """Carry until the client is gone."""
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        try:
            while self._turn():
                pass
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            for each in self._carried.values():
                each.sock.close()

    def _turn(self) -> bool:
        """Wait for something to do, and do it; return False when the client is gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_READ, None)
            if self._held:
                selector.register(self._out, selectors.EVENT_WRITE, None)
            for number, each in self._carried.items():
                wanted = self._wanted(each)
                if wanted:
                    selector.register(each.sock, wanted, number)
            ready = selector.select()
        for key, events in ready:
            if key.data is not None:
                self._serve(key.data, events)
            elif key.fd == self._out:
                del self._held[: os.write(self._out, self._held)]
            elif not self._hear():
                return False
        return True

    def _wanted(self, each: Carried) -> int:
        reads = not each.host_closed and each.credit > 0 and len(self._held) < MAX_HELD
        return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if each.waiting else 0)

    def _send(self, header: dict[str, Any], data: bytes = b"") -> None:
        self._held += encode_frame(header, data)

    def _serve(self, number: int, events: int) -> None:
        each = self._carried.get(number)
        if each is None:
            return
        try:
            if events & selectors.EVENT_WRITE:
                count = each.sock.send(each.waiting)
                del each.waiting[:count]
                self._send({"ack": number, "count": count})
            if events & selectors.EVENT_READ:
                data = each.sock.recv(min(PART, each.credit))
                each.credit -= len(data)
                each.host_closed = not data
                self._send({"data": number, "size": len(data)} if data else {"close": number}, data)
            if each.client_closed and not each.waiting and not each.ended:
                each.ended = True
                each.sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self._drop(number)
            return
        if each.ended and each.host_closed:
            self._carried.pop(number).sock.close()

    def _drop(self, number: int) -> None:
        each = self._carried.pop(number, None)
        if each is not None:
            each.sock.close()
            self._send({"gone": number})

    def _hear(self) -> bool:
        """Read the client's frames; return False when it is gone."""
        try:
            data = os.read(self._in, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        self._heard += data
        while True:
            end = self._heard.find(b"\n", 0, MAX_HEADER)
            if end < 0:
                return len(self._heard) < MAX_HEADER
            header = json.loads(bytes(self._heard[:end]))
            size = int(header.get("size", 0))
            if len(self._heard) < end + 1 + size:
                return True
            payload = bytes(self._heard[end + 1 : end + 1 + size])
            del self._heard[: end + 1 + size]
            self._obey(header, payload)

    def _obey(self, header: dict[str, Any], data: bytes) -> None:
        if "open" in header:
            self._open(header["open"])
        number = next((header[word] for word in ("data", "ack", "close", "gone") if word in header), None)
        each = self._carried.get(number) if number is not None else None
        if each is None or number is None:
            return
        if "data" in header:
            each.waiting += data
        elif "ack" in header:
            each.credit += int(header["count"])
        elif "close" in header:
            each.client_closed = True
            self._serve(number, 0)
        else:
            self._drop(number)

    def _open(self, number: int) -> None:
        if len(self._carried) < MAX_CONNECTIONS:
            with contextlib.suppress(RequestRefused):
                sock = self._connect()
                sock.setblocking(False)
                self._carried[number] = Carried(sock)
                return
        self._send({"gone": number})
