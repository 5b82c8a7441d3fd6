"""A process beside the rank that reports a missed deadline where the rank itself cannot.

A rank that is stopped, or whose interpreter is blocked in native code, runs no thread that could report it.
The rank writes each deadline to a pipe, and that it has reported a missed one; its end closes the pipe.
"""

import contextlib
import os
import select
import subprocess
import sys
import time

from ..procfs import read_stat, read_text
from .context import REPORT_SETTLE_S, Reporter

OPTION = "--observe"
GRACE_S = 1.5  # after its deadline the rank has this long to report itself
_LINE = 4096


class Observer:
    """The rank's side: starts the process and sends it the deadlines."""

    def __init__(self, program: str, run_dir: str, rank: int) -> None:
        words = [sys.executable, "-I", "-S", program, OPTION, run_dir, str(rank), str(os.getpid())]
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):  # without it the limit of the whole run holds
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, bufsize=0)

    def announce(self, step: str, limit_s: float) -> None:
        """Send the step that runs now, and how long it may take; infinity: it is over, or was reported."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(b"%s %r\n" % (step.encode(), limit_s))


def observe_deadlines(run_dir: str, rank: int, pid: int, source: int = 0) -> None:
    """Read deadlines from a descriptor until its end; report the rank that misses one without a report."""
    reporter, step, until, rest = Reporter(run_dir, rank), "", float("inf"), b""
    while True:
        left = until - time.monotonic()
        if left <= 0:
            report_silence(reporter, step, pid)
            until = float("inf")
        elif select.select([source], [], [], None if left == float("inf") else left)[0]:
            data = os.read(source, _LINE)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                name, _, limit = line.decode().partition(" ")
                step, until = name, time.monotonic() + float(limit) + GRACE_S


def report_silence(reporter: Reporter, step: str, pid: int) -> None:
    """Report what the kernel says of a rank that has reported nothing, then the hang."""
    process = read_stat(pid)
    state = process.state if process else ""  # T: stopped, "": gone
    reporter.report("silent", step, state=state, waits_in=read_text("/proc/%d/wchan" % pid))
    time.sleep(REPORT_SETTLE_S)
    reporter.report_hang("hung: the step %s of the deep checks missed its deadline" % step)
