"""Names asked about side by side: as many as the name server bears, and no longer than it answers."""

import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from launcher.local.fanout_places import release_place

Address: TypeAlias = tuple[
    socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]
Answer: TypeAlias = "list[Address] | BaseException"
"""TimeoutError says what did not happen in time. OSError and UnicodeError are getaddrinfo's; RuntimeError:
this machine has no thread left."""

_FIRST = 64
_MOST = 256
_FEWEST = 16
_EACH_S = 0.04  # what an answer adds to waiting names: a server gives 25 a second at least
_SILENCE = 0.9  # of the time-out: room then means no answer: resolvers give up after 10 s
_TURN_S = 0.05
_MOST_ASKS = 3
_LATE = 0.2
"""Part of the time-out after which a question is taken for lost, where the name server answers others, and
from which on a failure is the resolver's own, not the name server's."""
_PAUSE_S = 0.5  # before a name that failed for the moment is asked about again
_SHARE = 0.8  # of what a server that loses questions answers in a second: its pace then
_FASTER = 0.8  # factor of the time between two questions, in each second without a loss
_UNPACED_S = 0.001


class _Name:
    """A name that a caller waits for."""

    def __init__(self, address: str, port: int, limit_s: float, deliver: Callable[[Answer], None]) -> None:
        self.address = address
        self.port = port
        self.limit_s = limit_s
        self.deliver = deliver
        self.asks = 0
        self.asked = 0.0  # for the last time
        self.threads = 0
        self.lost = 0  # of these, those whose questions are taken for lost
        self.is_waiting = True  # to be asked, for the first time or again
        self.not_before = 0.0


class Lookups:
    """Bounds how many names are asked about at once, and for how long.

    `getaddrinfo` has no time-out, so each call has a thread, which may be left behind. A name server that is
    asked too much at once loses questions: each answer makes room for one more, and each temporary failure
    (EAI_AGAIN: it did not answer, or said so) halves the room. A question that is late while others are
    answered is asked again, and from then on no faster than the name server has answered; so is one that
    failed for the moment, once. One thread keeps the times of all names: one that waits for room takes none.
    """

    def __init__(self, first: int = _FIRST) -> None:
        self._lock = threading.Lock()
        self._kept = False
        self._inbox: queue.SimpleQueue[_Name | tuple[_Name, Answer, float]] = queue.SimpleQueue()
        # What follows belongs to the thread that keeps the times.
        self._room = first
        self._asked = 0  # threads
        self._lost = 0  # of these threads
        self._waiting: deque[_Name] = deque()
        self._open: set[_Name] = set()  # neither answered nor given up
        self._began = 0.0  # when the first of these came
        self._due = 0.0  # where the name server would be if it did what it is to do, and now at best
        self._heard = 0.0  # the name server said something, be it that it failed, or the first name came
        self._answered = 0.0
        self._looked = 0.0
        self._recent: deque[float] = deque()  # answers within a second
        self._answers = 0  # since the first name
        self._gap_s = 0.0  # between two questions
        self._next = 0.0
        self._paced = 0.0

    def resolve(self, address: str, port: int, limit_s: float) -> Answer:
        """Return what `ask` would deliver."""
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.ask(address, port, limit_s, answers.put)
        with release_place():
            return answers.get()

    def ask(self, address: str, port: int, limit_s: float, deliver: Callable[[Answer], None]) -> None:
        """Ask about a name; `deliver` is called once, in another thread.

        TimeoutError: no answer came within `limit_s`; or no room, where the name server has answered nothing
        for so long, or is so far behind 25 answers a second.
        """
        with self._lock:
            if not self._kept:
                threading.Thread(target=self._keep, daemon=True).start()
                self._kept = True
        self._inbox.put(_Name(address, port, limit_s, deliver))

    def _keep(self) -> None:
        """Carry out what the inbox holds, and give up what is late, for as long as this process lives."""
        while True:
            try:
                event = self._inbox.get(timeout=_TURN_S if self._open else None)
            except queue.Empty:
                event = None
            now = time.monotonic()
            if isinstance(event, _Name):
                self._add(event, now)
            elif event is not None:
                self._take(*event, now)
            if now - self._looked >= _TURN_S:
                self._looked = now
                self._look(now)
            self._start(now)

    def _add(self, name: _Name, now: float) -> None:
        if not self._open:
            self._began = self._due = self._heard = now
            self._answers = 0
        self._open.add(name)
        self._waiting.append(name)

    def _take(self, name: _Name, answer: Answer, asked: float, now: float) -> None:
        """Take the answer of a thread that asked at `asked`; it may come too late for its name."""
        self._asked -= 1
        name.threads -= 1
        if name.lost:
            name.lost -= 1
            self._lost -= 1
        has_failed = isinstance(answer, socket.gaierror) and answer.errno == socket.EAI_AGAIN
        if not has_failed or now - asked < _LATE * name.limit_s:
            self._heard = now
            self._due = min(now, self._due + _EACH_S)
        if not has_failed:
            self._answered = now
            self._recent.append(now)
            self._answers += 1
            self._room = min(_MOST, self._room + 1)
            self._conclude(name, answer)
            return
        self._room = max(min(self._room, _FEWEST), self._room // 2)
        if name.is_waiting or name.threads:
            return
        if name.asks < (_MOST_ASKS if self._is_alive(name, now) else 2):
            self._ask_again(name, now + _PAUSE_S)
        else:
            self._conclude(name, answer)

    def _is_alive(self, name: _Name, now: float) -> bool:
        return now - self._answered < name.limit_s / 2

    def _ask_again(self, name: _Name, not_before: float) -> None:
        if name in self._open:
            name.not_before, name.is_waiting = not_before, True
            self._waiting.append(name)

    def _conclude(self, name: _Name, answer: Answer) -> None:
        if name in self._open:
            self._open.remove(name)
            name.deliver(answer)

    def _look(self, now: float) -> None:
        """Give up names whose time is over, and ask again about those whose questions seem to be lost."""
        while self._recent and self._recent[0] < now - 1:
            self._recent.popleft()
        if self._gap_s and now - self._paced >= 1:
            self._paced, self._gap_s = now, self._gap_s * _FASTER if self._gap_s > _UNPACED_S else 0.0
        for name in tuple(self._open):
            if now - (self._heard if name.is_waiting else name.asked) >= name.limit_s:
                self._conclude(name, TimeoutError(f"within {name.limit_s:g} s"))
            elif not name.is_waiting:
                is_late = name.asks < _MOST_ASKS and name.asked + _LATE * name.limit_s <= now
                if is_late and self._is_alive(name, now):
                    self._note_loss(name, now)
            elif now - self._due >= name.limit_s:
                rate = f"fewer than {1 / _EACH_S:.0f} a second"
                self._conclude(name, TimeoutError(f"in time: the name server answers {rate}"))

    def _note_loss(self, name: _Name, now: float) -> None:
        self._lost += name.threads - name.lost
        name.lost = name.threads
        if name.asked > self._paced:  # at the pace of now
            average = self._answers / (now - self._began)  # what it bears, if it has answered nothing lately
            rate = max(len(self._recent), average, 1 / _EACH_S)
            self._paced, self._gap_s = now, 1 / (_SHARE * rate)
        self._ask_again(name, now)

    def _start(self, now: float) -> None:
        """Ask about names while there is room, at the pace that is known."""
        while self._waiting and self._asked < self._room + min(self._lost, _MOST):
            name = self._waiting[0]
            if name in self._open:
                if now - self._heard >= _SILENCE * name.limit_s:
                    return
                if max(name.not_before, self._next) > now:
                    return
                self._next = max(self._next, now - _TURN_S) + self._gap_s
                self._start_one(name, now)
            self._waiting.popleft()
        if not self._waiting:
            self._due = now

    def _start_one(self, name: _Name, now: float) -> None:
        name.asked, name.is_waiting = now, False
        try:
            threading.Thread(target=self._ask, args=(name, now), daemon=True).start()
        except RuntimeError as failure:
            self._conclude(name, failure)
            return
        name.asks += 1
        name.threads += 1
        self._asked += 1

    def _ask(self, name: _Name, asked: float) -> None:
        answer: Answer
        try:
            found = socket.getaddrinfo(name.address, name.port, type=socket.SOCK_STREAM)
            answer = [(entry[0], entry[4]) for entry in found]
        except (OSError, UnicodeError) as failure:  # UnicodeError: a label that IDNA cannot encode
            answer = failure
        self._inbox.put((name, answer, asked))
