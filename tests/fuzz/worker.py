"""One door for some time, in a process of its own, so that what kills the reader ends nothing else.

    python -m tests.fuzz.worker DOOR SEED SECONDS SHARED

SHARED is a file in which the input that is being tried always lies: whoever waits for this process finds it
there however the process ended. Without SECONDS (0) the inputs of stdin's length-prefixed list are tried.
"""

import mmap
import random
import re
import resource
import signal
import struct
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.coverage import Coverage
from tests.fuzz.mutation import MAX_INPUT, mutated
from tests.fuzz.targets import opened, passes

CPU_LIMIT_S = 5.0
_TRACING = 5  # times the CPU time of a call: see coverage.py
MEMORY_LIMIT = 500 << 20
_ADDRESS_SPACE = 3 << 30  # so that a reader that takes all memory takes only this machine's patience
_TRACED = 4  # one of so many calls
_SHORT_S = 10.0  # in less the trace of the corpus alone would take the time of all other inputs
_MOST_SEEDS = 40
_LARGE = 20_000  # what grows from a large input is mostly larger
EXIT_FAILED = 3
SHARED_SIZE = 8 + MAX_INPUT


class Failed(Exception):
    """A reader did what a door must not."""


class Tries:
    """Tries inputs, each within its bounds."""

    def __init__(self, door: str, shared: Path) -> None:
        self.door, self._read = opened(door)
        with shared.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), SHARED_SIZE)

    def once(self, data: bytes, *, traced: bool = False) -> None:
        """Try one input. Raises Failed; a signal ends this process when it takes too much CPU time."""
        data = data[:MAX_INPUT]
        self._shared[: 8 + len(data)] = struct.pack("<Q", len(data)) + data
        before = _peak()
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S * (_TRACING if traced else 1))
        try:
            passes(self._read, data)
        except Exception:  # noqa: BLE001 - anything but the project's own errors
            raise Failed(traceback.format_exc(limit=-8)) from None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        peak = _peak()
        if peak > max(before, MEMORY_LIMIT):
            raise Failed(f"{peak >> 20} MB of memory, {before >> 20} MB before this input")


def _peak() -> int:
    """Return the most memory so far; ru_maxrss would count that of whoever forked this process."""
    found = re.search(rb"VmHWM:\s+(\d+)", Path("/proc/self/status").read_bytes())
    return int(found[1]) << 10 if found else 0


def main(door: str, seed: str, seconds: str, shared: str) -> int:
    """Fuzz; return 0, or EXIT_FAILED after telling why on stdout."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    tries = Tries(door, Path(shared))
    try:
        count, lines = _fuzz(tries, random.Random(f"{door} {seed}"), float(seconds))
    except Failed as failed:
        print(failed)  # noqa: T201
        return EXIT_FAILED
    print(f"{count} inputs, {lines} lines reached")  # noqa: T201
    return 0


def _fuzz(tries: Tries, rng: random.Random, seconds: float) -> tuple[int, int]:
    coverage, pool, words = Coverage(), list[bytes](), tries.door.words
    ends, traces = time.monotonic() + seconds, seconds > _SHORT_S
    for data in tries.door.corpus(rng, _MOST_SEEDS):
        if traces:
            coverage.grows(lambda data=data: tries.once(data, traced=True))  # type: ignore[misc]
        else:
            tries.once(data)
        pool.append(data[:MAX_INPUT])
    count = len(pool)
    while time.monotonic() < ends:
        parent = rng.choice(pool[-20:] if rng.random() < 0.3 else pool)
        data = mutated(rng, parent, pool, words, is_json=tries.door.is_json)
        count += 1
        if not traces or count % _TRACED:
            tries.once(data)
        elif coverage.grows(lambda data=data: tries.once(data, traced=True)) and len(data) <= _LARGE:  # type: ignore[misc]
            pool.append(data)
    return count, len(coverage.lines)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
