"""When something happened on a host, by our clock, though the host may set its own meanwhile."""

import time
from collections.abc import Mapping
from typing import Any

from launcher.rundir.event_schema import is_time


class HostClock:
    """Compares what a host says of its two clocks with ours: the wall clock `t`, and the monotonic `m`."""

    def __init__(self) -> None:
        self._skews: dict[str, float] = {}  # ours minus the host's, smallest seen: the least delayed

    def see(self, t: object = None, m: object = None) -> None:
        """Take what a host's clocks have just shown; None: not said."""
        for clock, at in (("t", t), ("m", m)):
            if is_time(at):
                skew = time.time() - at
                self._skews[clock] = min(skew, self._skews.get(clock, skew))

    def date(self, event: Mapping[str, Any]) -> float:
        """Return when an event was written, by our clock in seconds: by `m` where that is known."""
        clock = "m" if "m" in self._skews and is_time(event.get("m")) else "t"
        return float(event[clock]) + self._skews.get(clock, 0.0)
