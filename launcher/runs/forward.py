"""A port of a run's host, carried to this machine's loopback over the connection that is held to it."""

import json
import queue
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, HostError
from launcher.follow import protocol
from launcher.follow.exchange import open_exchange
from launcher.runs.request import RequestDenied
from launcher.text import one_line
from launcher.transports.base import Connection, Stream
from launcher.transports.loopback import LoopbackConnection, LoopbackListener

WINDOW = 256 << 10  # bytes of a connection that may be under way in one direction, as in launcher/onhost/
PART = 32 << 10
START_S = 120.0  # a TensorBoard that is started first takes its time
_TURN_S = 0.5
_LARGEST_PORT = 65535


class _Carried:
    """One local connection: a thread that reads it, and one that writes to it."""

    def __init__(self, local: LoopbackConnection) -> None:
        self.local = local
        self.arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # None: no more comes
        self.held = 0  # bytes in it
        self._credit = WINDOW  # bytes that the host still takes
        self._changed = threading.Condition()
        self._open_ends = 2
        self._arrived_all = False
        self.over = False

    def wait_for_credit(self) -> int:
        """Return how many bytes may be sent now, once there are any; 0 when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._credit > 0 or self.over)
            return 0 if self.over else min(PART, self._credit)

    def add_credit(self, count: int) -> None:
        """Take that the host has passed bytes on; or that bytes are sent to it (negative)."""
        with self._changed:
            self._credit += count
            self._changed.notify_all()

    def take(self, data: bytes) -> bool:
        """Queue bytes of the host; return False where it sends more than it may."""
        with self._changed:
            self.held += len(data)
        self.arrived.put(data)
        return self.held <= WINDOW

    def end_arrivals(self) -> None:
        """Take that the host sends no more, once, however often it says so."""
        if not self._arrived_all:
            self._arrived_all = True
            self.arrived.put(None)

    def note_forwarded(self, count: int) -> None:
        """Note that bytes of the host have been sent to the local program."""
        with self._changed:
            self.held -= count

    def end_of_one(self) -> bool:
        """Note that one direction has ended; return whether both have."""
        with self._changed:
            self._open_ends -= 1
            return self._open_ends <= 0

    def end(self) -> None:
        """End it, and both threads."""
        with self._changed:
            self.over = True
            self._changed.notify_all()
        self.arrived.put(None)
        self.local.close()


class PortForward:
    """Carries connections of a listener over the stream of a host's relay."""

    def __init__(self, host: str, stream: Stream, reader: protocol.FrameReader, port: int) -> None:
        self.port = port
        self._host = host
        self._stream = stream
        self._reader = reader
        self._carried: dict[int, _Carried] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._failed = threading.Event()

    def run(self, listener: LoopbackListener) -> None:
        """Carry until the host's end is gone. Raises HostError then; KeyboardInterrupt ends it, too."""
        accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        accepting.start()
        try:
            while not self._failed.is_set():
                data = self._stream.read(_TURN_S)
                self._stream.read_stderr()
                if data == b"":
                    break
                self._take_all(data or b"")
            raise HostError(self._host, "the connection that carries the port has ended")
        finally:
            self._failed.set()
            with self._lock:
                left = list(self._carried.values())
            for each in left:
                each.end()
            self._stream.close()
            accepting.join(2 * _TURN_S)

    def _take_all(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._take(frame)
        except protocol.ProtocolError as error:
            raise AgentProtocolError(self._host, f"what it forwards cannot be read: {error}") from None

    def _take(self, frame: protocol.Frame) -> None:
        """Take one frame. Raises ProtocolError."""
        header = frame.header
        number = next((header[word] for word in ("data", "ack", "close", "gone") if word in header), None)
        if type(number) is not int:
            raise protocol.ProtocolError(one_line(f"a frame of no connection: {dict(header)}", 100))
        with self._lock:
            each = self._carried.get(number)
        if each is None:
            return
        if "data" in header:
            if not frame.data or not each.take(frame.data):
                raise protocol.ProtocolError("data of no bytes, or more than was acknowledged")
        elif "ack" in header:
            count = header.get("count")
            if type(count) is not int or not 0 <= count <= WINDOW:
                raise protocol.ProtocolError("an acknowledgement without a count")
            each.add_credit(count)
        elif "close" in header:
            each.end_arrivals()
        else:
            self._forget(number)

    def _send(self, header: Mapping[str, Any], data: bytes = b"") -> None:
        try:
            with self._writing:
                self._stream.write(json.dumps(header).encode() + b"\n" + data)
        except HostError:
            self._failed.set()

    def _accept(self, listener: LoopbackListener) -> None:
        while not self._failed.is_set():
            try:
                local = listener.accept()
            except OSError:
                return
            if local is None:
                continue
            each = _Carried(local)
            with self._lock:
                self._count += 1
                number = self._count
                self._carried[number] = each
            self._send({"open": number})
            for work in (self._from_local, self._to_local):
                threading.Thread(target=work, args=(number, each), daemon=True).start()

    def _from_local(self, number: int, each: _Carried) -> None:
        while most := each.wait_for_credit():
            data = each.local.receive(most)
            if not data:
                break
            each.add_credit(-len(data))
            self._send({"data": number, "size": len(data)}, data)
        if not each.over:
            self._send({"close": number})
            self._ended_one(number, each)

    def _to_local(self, number: int, each: _Carried) -> None:
        while (data := each.arrived.get()) is not None:
            if not each.local.send(data):
                self._send({"gone": number})
                self._forget(number)
                return
            each.note_forwarded(len(data))
            self._send({"ack": number, "count": len(data)})
        if not each.over:
            each.local.end()
            self._ended_one(number, each)

    def _ended_one(self, number: int, each: _Carried) -> None:
        if each.end_of_one():
            self._forget(number)

    def _forget(self, number: int) -> None:
        with self._lock:
            each = self._carried.pop(number, None)
        if each is not None:
            each.end()


def open_forward(
    connection: Connection, entry: HostEntry, run_id: str, *, port: int, tensorboard: bool
) -> PortForward:
    """Start the relay, and TensorBoard before it where asked. Raises RequestDenied, or HostError."""
    document = {"mode": "forward", "run_id": run_id, "port": port, "tensorboard": tensorboard}
    stream, reader, there = open_exchange(connection, entry, document, START_S, partial(_port_in, entry.name))
    return PortForward(entry.name, stream, reader, there)


def _port_in(host: str, answer: Mapping[str, Any]) -> int:
    """Return the port that a host forwards. Raises RequestDenied with its reason, AgentProtocolError."""
    if "refused" in answer:
        raise RequestDenied(host, answer["refused"], answer.get("fix", ""))
    port = answer.get("port")
    if type(port) is not int or not 0 < port <= _LARGEST_PORT:
        raise AgentProtocolError(host, "its answer names no port")
    return port
