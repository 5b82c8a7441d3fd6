"""Names asked about side by side: as many as the name server bears, and no longer than it answers."""

import queue
import socket
import threading
import time
from typing import TypeAlias

from launcher.local.places import released_place

Address: TypeAlias = tuple[
    socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]
_Answer: TypeAlias = list[Address] | OSError | UnicodeError

_FIRST = 64
_MOST = 256
_FEWEST = 16
_EACH_S = 0.04
"""What each name adds to the time of all: a name server is to answer 25 names a second at least."""
_SILENCE = 0.9
"""Part of the time-out after which room does not mean an answer: resolvers give up after 10 s, too."""


class Lookups:
    """Bounds how many names are asked about at once, and for how long.

    `getaddrinfo` has no time-out, so each call has a thread, which may be left behind. A name server that is
    asked too much at once loses questions: each answer makes room for one more, and each temporary failure
    (EAI_AGAIN: it did not answer, or said so) halves the room.
    """

    def __init__(self, first: int = _FIRST) -> None:
        self._changed = threading.Condition()
        self._room = first
        self._asked = 0  # threads
        self._open = 0  # names that callers wait for
        self._names = 0  # the same, since there was none
        self._began = 0.0
        self._answered = 0.0

    def resolve(self, address: str, port: int, limit_s: float) -> list[Address]:
        """Return the addresses of a name, which may be none.

        Raises TimeoutError, which says what did not happen: an answer within `limit_s`, or room, where the
        name server has answered nothing for so long; or all names in their time, `limit_s` and 40 ms for
        each. Raises OSError or UnicodeError as getaddrinfo.
        """
        answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        with released_place():
            try:
                self._enter(limit_s)
                self._start(address, port, answers)
                answer = answers.get(timeout=limit_s)
            except queue.Empty:
                raise TimeoutError(f"within {limit_s:g} s") from None
            finally:
                with self._changed:
                    self._open -= 1
        if isinstance(answer, list):
            return answer
        raise answer

    def _enter(self, limit_s: float) -> None:
        """Wait for room. Raises TimeoutError."""
        with self._changed:
            if self._open == 0:
                self._began, self._names = time.monotonic(), 0
            self._open += 1
            self._names += 1
            while self._asked >= self._room:
                now = time.monotonic()
                left_s = self._began + limit_s + _EACH_S * self._names - now
                if left_s <= 0:
                    raise TimeoutError(
                        f"in time: the name server answers less than {1 / _EACH_S:.0f} a second"
                    )
                silent_s = now - max(self._began, self._answered)
                if silent_s >= limit_s:
                    raise TimeoutError(f"within {limit_s:g} s")
                self._changed.wait(min(left_s, limit_s - silent_s))
                if time.monotonic() - max(self._began, self._answered) >= _SILENCE * limit_s:
                    raise TimeoutError(f"within {limit_s:g} s")
            self._asked += 1

    def _start(self, address: str, port: int, answers: "queue.SimpleQueue[_Answer]") -> None:
        try:
            threading.Thread(target=self._ask, args=(address, port, answers), daemon=True).start()
        except RuntimeError:  # no thread: the caller has another try
            with self._changed:
                self._asked -= 1
            raise

    def _ask(self, address: str, port: int, answers: "queue.SimpleQueue[_Answer]") -> None:
        answer: _Answer
        try:
            found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
            answer = [(entry[0], entry[4]) for entry in found]
        except (OSError, UnicodeError) as failure:  # UnicodeError: a label that IDNA cannot encode
            answer = failure
        with self._changed:
            self._asked -= 1
            if isinstance(answer, socket.gaierror) and answer.errno == socket.EAI_AGAIN:
                self._room = max(min(self._room, _FEWEST), self._room // 2)
            else:
                self._answered = time.monotonic()
                self._room = min(_MOST, self._room + 1)
            self._changed.notify(2)  # its own room, and what it may have made
        answers.put(answer)
