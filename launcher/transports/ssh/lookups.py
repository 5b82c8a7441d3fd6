"""Names asked about side by side: as many as the name server bears, and no longer than it answers."""

import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from launcher.local.places import released_place

Address: TypeAlias = tuple[
    socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]
Answer: TypeAlias = "list[Address] | BaseException"
"""TimeoutError says what did not happen in time. OSError and UnicodeError are getaddrinfo's; RuntimeError:
this machine has no thread left."""

_FIRST = 64
_MOST = 256
_FEWEST = 16
_EACH_S = 0.04
"""What each name adds to the time of all: a name server is to answer 25 names a second at least."""
_SILENCE = 0.9
"""Part of the time-out after which room does not mean an answer: resolvers give up after 10 s, too."""
_TURN_S = 0.05


class _Name:
    """A name that a caller waits for."""

    def __init__(self, address: str, port: int, limit_s: float, deliver: Callable[[Answer], None]) -> None:
        self.address = address
        self.port = port
        self.limit_s = limit_s
        self.deliver = deliver
        self.deadline = 0.0  # once it has been asked about


class Lookups:
    """Bounds how many names are asked about at once, and for how long.

    `getaddrinfo` has no time-out, so each call has a thread, which may be left behind. A name server that is
    asked too much at once loses questions: each answer makes room for one more, and each temporary failure
    (EAI_AGAIN: it did not answer, or said so) halves the room. One thread keeps the times of all names, so
    that a name that waits for room takes none.
    """

    def __init__(self, first: int = _FIRST) -> None:
        self._lock = threading.Lock()
        self._kept = False
        self._inbox: queue.SimpleQueue[_Name | tuple[_Name, Answer]] = queue.SimpleQueue()
        # What follows belongs to the thread that keeps the times.
        self._room = first
        self._asked = 0  # threads
        self._waiting: deque[_Name] = deque()
        self._open: set[_Name] = set()  # asked about, and neither answered nor given up
        self._names = 0  # since there was none
        self._began = 0.0
        self._answered = 0.0
        self._looked = 0.0

    def resolve(self, address: str, port: int, limit_s: float) -> list[Address]:
        """Return the addresses of a name, which may be none, or raise what `ask` would deliver."""
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.ask(address, port, limit_s, answers.put)
        with released_place():
            answer = answers.get()
        if isinstance(answer, list):
            return answer
        raise answer

    def ask(self, address: str, port: int, limit_s: float, deliver: Callable[[Answer], None]) -> None:
        """Ask about a name; `deliver` is called once, in another thread.

        TimeoutError: no answer came within `limit_s`; or no room, where the name server has answered nothing
        for so long; or not all names had their turn in their time, `limit_s` and 40 ms for each.
        """
        with self._lock:
            if not self._kept:
                threading.Thread(target=self._keep, daemon=True).start()
                self._kept = True
        self._inbox.put(_Name(address, port, limit_s, deliver))

    def _keep(self) -> None:
        """Carry out what the inbox holds, and give up what is late, for as long as this process lives."""
        while True:
            busy = self._waiting or self._open
            try:
                event = self._inbox.get(timeout=_TURN_S if busy else None)
            except queue.Empty:
                event = None
            now = time.monotonic()
            if isinstance(event, _Name):
                if not busy:
                    self._began, self._names = now, 0
                self._names += 1
                self._waiting.append(event)
            elif event is not None:
                self._take(*event, now)
            if now - self._looked >= _TURN_S:
                self._looked = now
                self._give_up(now)
            self._start(now)

    def _take(self, name: _Name, answer: Answer, now: float) -> None:
        """Take an answer, which may come too late for its name."""
        self._asked -= 1
        if isinstance(answer, socket.gaierror) and answer.errno == socket.EAI_AGAIN:
            self._room = max(min(self._room, _FEWEST), self._room // 2)
        else:
            self._answered = now
            self._room = min(_MOST, self._room + 1)
        self._conclude(name, answer)

    def _conclude(self, name: _Name, answer: Answer) -> None:
        if name in self._open:
            self._open.remove(name)
            name.deliver(answer)

    def _silent_s(self, now: float) -> float:
        return now - max(self._began, self._answered)

    def _give_up(self, now: float) -> None:
        for name in [each for each in self._open if each.deadline <= now]:
            self._conclude(name, TimeoutError(f"within {name.limit_s:g} s"))
        waiting, self._waiting = self._waiting, deque()
        for name in waiting:
            if self._began + name.limit_s + _EACH_S * self._names <= now:
                each_s = f"less than {1 / _EACH_S:.0f} a second"
                name.deliver(TimeoutError(f"in time: the name server answers {each_s}"))
            elif self._silent_s(now) >= name.limit_s:
                name.deliver(TimeoutError(f"within {name.limit_s:g} s"))
            else:
                self._waiting.append(name)

    def _start(self, now: float) -> None:
        """Ask about names while there is room."""
        while self._waiting and self._asked < self._room:
            name = self._waiting[0]
            if self._silent_s(now) >= _SILENCE * name.limit_s:
                return
            self._waiting.popleft()
            name.deadline = now + name.limit_s
            try:
                threading.Thread(target=self._ask, args=(name,), daemon=True).start()
            except RuntimeError as failure:
                name.deliver(failure)
                continue
            self._asked += 1
            self._open.add(name)

    def _ask(self, name: _Name) -> None:
        answer: Answer
        try:
            found = socket.getaddrinfo(name.address, name.port, type=socket.SOCK_STREAM)
            answer = [(entry[0], entry[4]) for entry in found]
        except (OSError, UnicodeError) as failure:  # UnicodeError: a label that IDNA cannot encode
            answer = failure
        self._inbox.put((name, answer))
