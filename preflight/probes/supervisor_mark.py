"""The mark by which a process says which supervisor started it. Anybody may have written it."""

import re
from typing import NamedTuple

# BOOT_ID:PID_NAMESPACE:TIME_NAMESPACE:PID:START_TICKS. `[0-9]`, since `\d` and str.isdigit take "²" too.
_MARK = re.compile(r"([0-9A-Za-z-]{1,64}):([0-9]{1,20}):([0-9]{1,20}):([0-9]{1,10}):([0-9]{1,20})")


class RunMark(NamedTuple):
    """Which process, and where its pid and start time mean something."""

    boot_id: str
    pid_namespace: str
    time_namespace: str
    pid: int
    start_ticks: int


def parse_mark(text: str) -> RunMark | None:
    """Return what a mark says; None when it is not of that form."""
    found = _MARK.fullmatch(text)
    if found is None or int(found.group(4)) < 1:
        return None
    boot_id, pid_namespace, time_namespace, pid, start_ticks = found.groups()
    return RunMark(boot_id, pid_namespace, time_namespace, int(pid), int(start_ticks))
