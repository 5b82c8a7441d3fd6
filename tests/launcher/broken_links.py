"""Links to a host that break, die or answer late, and clocks that a test sets."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, cast

from launcher.config.disconnect_options import LATE_START_S
from launcher.errors import ConnectionLost, HostError
from launcher.follow.awake_clock import AwakeClock
from launcher.transports.base import Endpoint, Stream
from launcher.transports.local import LocalConnection, LocalStream
from tests.launcher.odd_hosts import Host, Sent


class NotedConnection(LocalConnection):
    """Notes what it has started, so that a test can break the link."""

    def __init__(self, streams: list[LocalStream]) -> None:
        super().__init__(Endpoint("a", "local", ""))
        self._streams = streams

    def start(self, argv: Iterable[str]) -> LocalStream:
        stream = super().start(argv)
        self._streams.append(stream)
        return stream


class MuteStream:
    """A stream whose link breaks once the far end has done its work, before a word of it has come."""

    def __init__(self, stream: LocalStream, done: Callable[[], bool]) -> None:
        self._stream = stream
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, _timeout_s: float) -> bytes:
        deadline = time.monotonic() + 60.0
        while not self._done():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self._stream.kill()
        return b""


class BrokenStart(LocalConnection):
    """Answers no request to start, carried out or not."""

    def __init__(self, started: Callable[[], bool] | None) -> None:
        """`started`: whether what was asked for runs; None: it never does."""
        super().__init__(Endpoint("a", "local", ""))
        self._started = started

    def start(self, argv: Iterable[str]) -> LocalStream:
        words = tuple(argv)
        if "start" not in words:
            return super().start(words)
        if self._started is None:
            words = ("sh", "-c", "exec cat >/dev/null")
        return cast("LocalStream", MuteStream(super().start(words), self._started or (lambda: True)))


class HeldRequest:
    """A stream that takes a request, and whose link breaks before any answer."""

    def __init__(self) -> None:
        self.body = b""

    def write(self, data: bytes) -> None:
        self.body += data

    def read(self, _timeout_s: float) -> bytes:
        return b""

    def read_stderr(self) -> bytes:
        return b""

    def wait(self, _timeout_s: float) -> int | None:
        return None

    def close(self) -> None:
        return None


class LateStart(LocalConnection):
    """Carries a request to start out once the run has been asked for in vain, or never."""

    def __init__(self, clock: "SetClock", *, starts: bool) -> None:
        super().__init__(Endpoint("a", "local", ""))
        self._clock = clock
        self._starts = starts
        self._held = HeldRequest()
        self._words: tuple[str, ...] = ()
        self.asked = 0

    def start(self, argv: Iterable[str]) -> LocalStream:
        words = tuple(argv)
        if "start" in words:
            self._words = words
            return cast("LocalStream", self._held)
        self.asked += 1
        if self.asked > 1 and self._starts:
            self._starts = False
            with closing(super().start(self._words)) as stream:
                stream.write(self._held.body)
                while stream.read(60.0) is None:
                    pass
        self._clock.at += 0.6 * LATE_START_S
        return super().start(words)


class SetClock(AwakeClock):
    """Shows what it was set to."""

    at = 0.0

    def read(self) -> float:
        return self.at


class DeadAtFirst(LocalConnection):
    """Was held open for long, and has died meanwhile; the next one lives."""

    def __init__(self) -> None:
        super().__init__(Endpoint("a", "local", ""))
        self._is_dead = True

    def start(self, argv: Iterable[str]) -> LocalStream:
        if self._is_dead:
            self._is_dead = False
            raise ConnectionLost("a", "it opened no session: SSH session not active")
        return super().start(argv)


class NotReached(BrokenStart):
    """Takes the request to start, and is not reached any more."""

    def __init__(self, error: HostError) -> None:
        super().__init__(None)
        self._error = error

    def start(self, argv: Iterable[str]) -> LocalStream:
        words = tuple(argv)
        if "start" not in words:
            raise self._error
        return super().start(words)


class SetAnswers(Host):
    """Answers no request to start, and each other one with the next of these bytes."""

    def __init__(self, *answers: bytes, start: HeldRequest | None = None) -> None:
        self._answers = iter(answers)
        self._start = start or HeldRequest()

    def start(self, argv: Iterable[str]) -> Stream:
        return cast("Stream", self._start) if "start" in argv else Sent(next(self._answers))


class RacingClock(AwakeClock):
    """Each look at it is ten seconds later."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.0

    def read(self) -> float:
        self._at += 10.0
        return self._at
