"""Signs of activity in a sample, and the time without any."""

from typing import Any

from .ranks import IoActivity

IDLE_BUSY = 5  # percent: a GPU below this does nothing of note
SPIN_BUSY = 95  # percent: a kernel that waits for other ranks runs all the time,
SPIN_MEMORY_BUSY = 2  # percent: hardly touches memory,
SPIN_OF_DRAWN = 0.6  # and draws much less power than between optimizer steps,
SPIN_OF_LIMIT = 0.45  # or than the GPU may
CPU_WORKS = 20.0  # percent of a core, of a rank with its workers; a wait in gloo or for a lock uses none
IO_WORKS = 1 << 20  # bytes in one sample
QUIET_S = 600.0
REPEAT_S = 15.0


def is_spinning(gpu: dict[str, Any], drawn_w: float | None) -> bool:
    """Return whether a GPU only waits: a collective whose peers are missing keeps it 100 % busy.

    Without its power this cannot be determined, and the GPU counts as working.
    """
    busy, memory, power = gpu["busy"], gpu["memory_busy"], gpu["power_w"]
    if busy is None or memory is None or power is None or busy < SPIN_BUSY or memory > SPIN_MEMORY_BUSY:
        return False
    little = max(SPIN_OF_DRAWN * (drawn_w or 0.0), SPIN_OF_LIMIT * (gpu.get("power_limit_w") or 0.0))
    return bool(power < little)


def explain_activity(
    line: dict[str, Any], activity: IoActivity, gpu_of: dict[str, str], drawn: dict[str, float]
) -> str:
    """Return the sign of activity in a sample, "" when it shows none.

    A GPU is active if it is busy and does not spin. A rank is active if it uses or waits for a CPU or moves
    bytes, unless its GPU spins: the thread that waits for that GPU may spin too.
    """
    spinning = set()
    for uuid, gpu in line["gpus"].items():
        if is_spinning(gpu, drawn.get(uuid)):
            spinning.add(uuid)
        elif (gpu["busy"] or 0) >= IDLE_BUSY:
            return "GPU %s works" % uuid
    for rank, used in line["ranks"].items():
        if gpu_of.get(rank) in spinning:
            continue
        if (used["cpu"] or 0) + activity.starved.get(rank, 0) >= CPU_WORKS:
            return "rank %s uses the CPU" % rank
        if activity.io.get(rank, 0) >= IO_WORKS:
            return "rank %s reads or writes" % rank
    return ""


class IdleTimer:
    """Timer of idleness that decides when to emit an event."""

    def __init__(self, timeout_s: float | None, warn_s: float) -> None:
        self.timeout_s = timeout_s
        self.warn_s = warn_s
        self.seconds = 0.0
        self.next_s = self._first()
        self.last: float | None = None

    def _first(self) -> float:
        return min(self.warn_s, self.timeout_s or self.warn_s)

    def update(self, now: float, *, life: bool, longest_s: float) -> dict[str, Any] | None:
        """Return a sample's event, if any; at most `longest_s` count: a suspended machine was not idle."""
        passed = min(now - self.last, longest_s) if self.last is not None else 0.0
        self.last = now
        if life:
            was_reported = self.seconds >= self._first()
            self.seconds, self.next_s = 0.0, self._first()
            return {"event": "active"} if was_reported else None
        self.seconds += passed
        if self.seconds < self.next_s:
            return None
        if self.timeout_s and self.seconds >= self.timeout_s:
            self.next_s = self.seconds + REPEAT_S
        else:
            self.next_s = min(2 * self.seconds, self.timeout_s or 2 * self.seconds)
        return {"event": "idle", "seconds": round(self.seconds, 1), "timeout_s": self.timeout_s}
