"""Where the time of a run goes: what came before, start until the ranks are verified, run, end."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from launcher.follow.run_state import RunState
from launcher.text import spell_duration

START, RUN, END = "start", "run", "end"
QUIET_S = 60.0  # ranks that run and set up no world for so long are past their start, as far as can be seen


class Phase(NamedTuple):
    """A part of a run that is over."""

    name: str
    seconds: float


class Stopwatch:
    """Measures what comes before a launch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what is done inside; the same name again adds to it."""
        began = self._clock()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + self._clock() - began

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What was measured, in order."""
        return tuple(Phase(name, seconds) for name, seconds in self._seconds.items())


class Phases:
    """Sees by what a watched run reports which phase it is in. Times are of one clock."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._began: float | None = None
        self._introduced: float | None = None
        self._verified: float | None = None
        self._ending: float | None = None
        self._last = 0.0

    @property
    def current(self) -> tuple[str, float]:
        """The phase and when it began."""
        if self._ending is not None:
            return END, self._ending
        run = self._run_began(self._last)
        return (START, self._began or self._last) if run is None else (RUN, run)

    @property
    def start(self) -> Phase | None:
        """The start, once every rank is verified."""
        if self._verified is None or self._began is None:
            return None
        return Phase(START, max(0.0, self._verified - self._began))

    def update(self, at: float) -> None:
        """Look at the watched run, at this time."""
        verification = self._state.verification
        self._began = at if self._began is None else min(at, self._began)
        self._last = max(at, self._last)
        if self._introduced is None and verification.all_reported:
            self._introduced = at
        if self._verified is None and verification.devices_verified:
            self._verified = at
        if self._ending is None and (self._state.stopping or self._state.all_ranks_ended):
            self._ending = at

    def finish(self) -> tuple[Phase, ...]:
        """Return the phases of a run that is over, as long as it is known when they began."""
        if self._began is None:
            return ()
        run = self._run_began(float("inf"))
        edges = [(START, self._began), (RUN, run), (END, self._ending)]
        known = [(name, at) for name, at in edges if at is not None]
        ends = [at for _, at in known[1:]] + [self._last]
        return tuple(Phase(name, max(0.0, end - at)) for (name, at), end in zip(known, ends, strict=True))

    def _run_began(self, now: float) -> float | None:
        """Return when every rank was verified; where they never were, when every script had started."""
        found = self._verified
        if found is None and self._introduced is not None and now - self._introduced > QUIET_S:
            found = self._introduced
        return None if self._ending is not None and found is not None and found > self._ending else found


def format_phases(phases: Iterable[tuple[object, object]]) -> str:
    """Return `start 1: 40.2 s, preflight 0.9 s, start 3.1 s, run 5 min 12 s`."""
    return ", ".join(
        f"{name}{':' * str(name)[-1:].isdigit()} {spell_duration(seconds)}" for name, seconds in phases
    )
