"""A place among the clients that wait for GPUs: a ticket on each host, taken in one order by all clients.

A client takes its next ticket only where it is first with all that it has. Every client goes through the
hosts in the order of their queues' own identity, so no two can each hold what the other one waits for.
"""

import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, GpulaunchError, HostError
from launcher.follow import protocol
from launcher.follow.exchange import open_exchange
from launcher.remote.connection_pool import ConnectionPool
from launcher.remote.fanout import fanout
from launcher.text import one_line
from launcher.transports.base import Closing, Stream

BEAT_S = 20.0
MOST_PER_POLL = 1 << 20  # bytes of a host in a turn; a flood must not hold up the others
SILENT_S = 60.0  # a host that says nothing for so long has lost the ticket; it speaks every 10 s
ANSWER_S = 60.0
_SHOWN = 3
_MOST_AHEAD = 1_000_000
_LONGEST_QUEUE = 120


class HostTicket(Closing):
    """The place in the queue of one host; `ahead` is None until it is taken and known."""

    def __init__(self, host: str, stream: Stream, queue: str, reader: protocol.FrameReader) -> None:
        self.host = host
        self.queue = queue
        self.ahead: int | None = None
        self.who: tuple[str, ...] = ()
        self.joined = False
        self._stream = stream
        self._reader = reader
        self._heard = self._beat = time.monotonic()

    def join(self) -> None:
        """Take the place. Raises HostError."""
        self.joined = True
        self._heard = time.monotonic()
        self._stream.write(b"join\n")

    def poll(self) -> None:
        """Take what the host has said since. Raises HostError when the place is lost."""
        now = time.monotonic()
        if now - self._beat > BEAT_S:
            self._beat = now
            self._stream.write(b"beat\n")
        came = 0
        while data := self._stream.read(0.0):
            self._heard, came = now, came + len(data)
            if came > MOST_PER_POLL:
                raise HostError(self.host, "its queue cannot be read: it sends without end")
            try:
                for frame in self._reader.feed(data):
                    self._take(frame.header)
            except (protocol.ProtocolError, ValueError, TypeError) as error:
                raise HostError(self.host, f"its queue cannot be read: {one_line(str(error), 100)}") from None
        if data == b"" or (self.joined and now - self._heard > SILENT_S):
            raise HostError(self.host, "the place in its queue was lost")

    def _take(self, header: Mapping[str, object]) -> None:
        if "refused" in header:
            raise HostError(self.host, one_line(str(header["refused"])))
        ahead, who = header.get("ahead"), header.get("who")
        if type(ahead) is not int or not isinstance(who, list) or not 0 <= ahead <= _MOST_AHEAD:
            raise ValueError("a frame without `ahead`")
        self.ahead = ahead
        self.who = tuple(_client(each) for each in who[:_SHOWN])

    def close(self) -> None:
        """Leave the queue."""
        self._stream.close()


def _queue_in(host: str, header: Mapping[str, object]) -> str:
    if "refused" in header:
        raise HostError(host, one_line(str(header["refused"])))
    queue = header.get("queue")
    if not isinstance(queue, str) or not 0 < len(queue) <= _LONGEST_QUEUE:  # two that do not are not one host
        raise AgentProtocolError(host, "its answer cannot be read: it does not say which queue it is")
    return queue


def _client(each: object) -> str:
    user, name = each if isinstance(each, list) and len(each) == 2 else ("?", "")
    return one_line(f"{user} ({name})" if name else str(user), 80)


class WaitQueue(Closing):
    """The places of one launch on all of its hosts."""

    def __init__(
        self, entries: Sequence[HostEntry], gpus: Mapping[str, Sequence[str]], pool: ConnectionPool, name: str
    ) -> None:
        """`gpus`: UUIDs by host that the launch may use. Raises HostError."""
        label = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:80] or "run"
        opened = fanout(lambda entry: open_ticket(entry, pool, label, gpus[entry.name]), entries)
        self._tickets: list[HostTicket] = []
        tickets = (each for each in opened if isinstance(each, HostTicket))
        for ticket in sorted(tickets, key=attrgetter("queue")):
            if self._tickets and self._tickets[-1].queue == ticket.queue:
                ticket.close()  # two names of one host
            else:
                self._tickets.append(ticket)
        failed = next((each for each in opened if isinstance(each, GpulaunchError)), None)
        if failed is not None:
            self.close()
            raise failed

    def step(self) -> bool:
        """Read what hosts have said, take the next place; return whether it is first everywhere.

        Raises HostError when a place is lost: then all are to be left and taken again.
        """
        for ticket in self._tickets:
            ticket.poll()
        following = next((each for each in self._tickets if each.ahead != 0), None)
        if following is not None and not following.joined:
            following.join()
        return following is None

    def lines(self) -> list[str]:
        """Return who is before it."""
        return [
            f"{each.host}: {each.ahead} before this run in the queue: {', '.join(each.who)}"
            + (", ..." if each.ahead > len(each.who) else "")
            for each in self._tickets
            if each.ahead
        ]

    def close(self) -> None:
        """Leave all queues."""
        while self._tickets:
            self._tickets.pop().close()


def open_ticket(entry: HostEntry, pool: ConnectionPool, name: str, gpus: Sequence[str]) -> HostTicket:
    """Start the program that will hold the ticket; no place is taken yet. Raises HostError."""
    request = {"mode": "queue", "name": name, "gpus": list(gpus)}
    with pool.borrow(entry) as connection:  # given back at once: others use it beside this stream
        read = partial(_queue_in, entry.name)
        stream, reader, queue = open_exchange(connection, entry, request, ANSWER_S, read)
    return HostTicket(entry.name, stream, queue, reader)
