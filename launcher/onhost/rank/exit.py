"""Report of the script's end, its traceback and what the rank used, and an exit as without rank.py."""

import atexit
import os
import signal
import sys
import time
from types import TracebackType
from typing import Callable

from .context import TEXT_LIMIT, RankContext, run_safely
from .setup import start_ticks

OUR_MODULES = "gpulaunch_"  # prefix of gpulaunch's own modules in tracebacks; users' files are absolute
TAIL_LINES = 30
GLOO_SETTLE_S = 0.3


class ExitHandler:
    """Handler that reports the script's end, and then exits the interpreter as Python would."""

    def __init__(self, place: RankContext) -> None:
        self.place = place
        self.interrupted = 0  # the process that a KeyboardInterrupt has ended: the rank, or a fork of it
        atexit.register(self._last)  # registered first, so called last

    def run(self, script: Callable[[], object]) -> None:
        """Run the script; tracebacks look as under plain python, without frames of rank.py."""
        code = 0
        try:
            script()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            raise
        except BaseException as error:
            code = 130 if isinstance(error, KeyboardInterrupt) else 1
            self._failed(error)
            raise SystemExit(code) from None
        finally:
            final = code & 0xFF
            run_safely("report the end", self.place.report, lambda: self._leave(final))

    def _leave(self, code: int) -> None:
        try:
            counted = measure_usage()
        except (OSError, ValueError, IndexError):  # /proc may be hidden
            counted = {}
        self.place.report("script_exit", code=code, **counted)

    def _failed(self, error: BaseException) -> None:
        trace = strip_own_frames(error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            # Torch's launcher passes on the SIGINT that the rank has had, too.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.interrupted = os.getpid()
        run_safely("report the exception", self.place.report, lambda: self._report(error, trace))
        sys.excepthook(type(error), error.with_traceback(trace), trace)

    def _report(self, error: BaseException, trace: TracebackType | None) -> None:
        import traceback

        inner = find_innermost(error)
        lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
        # What a library raised anew shows the user's code in the whole trace alone.
        found, own = _places(strip_own_frames(inner.__traceback__))
        self.place.report(
            "exception",
            type=type(inner).__qualname__,
            message=str(inner)[:TEXT_LIMIT],
            location=own or _places(trace)[1] or found,
            tail=[line[:400] for line in lines[-TAIL_LINES:]],
        )

    def _last(self) -> None:
        """Join gloo's threads; end an interrupted script by SIGINT, as Python does, for shells to see."""
        if os.getpid() == self.place.pid:
            run_safely("join gloo's threads", self.place.report, join_gloo)
        if self.interrupted == os.getpid():
            sys.stdout.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


def join_gloo() -> None:
    """Let gloo's threads finish before the interpreter exits.

    A thread that wants the GIL of a finalizing Python is ended by pthread_exit, and gloo's C++ turns that
    into an abort ("terminate called without an active exception"): a run that had completed its training
    would fail. The threads need the GIL to release the last collective's tensors, after the script has seen
    its completion; a model under DDP keeps them alive when the group is destroyed, so they get a moment too.
    NCCL's groups are left alone: destroying them may wait for other ranks.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return
    if "nccl" not in str(dist.get_backend()):
        dist.destroy_process_group()
        time.sleep(GLOO_SETTLE_S)


def measure_usage() -> dict[str, float]:
    """Return the rank's peak memory, its CPU time with that of its children, and its age.

    VmHWM belongs to the current program; getrusage would report the peak of the launcher that was forked.
    """
    found: dict[str, float] = {}
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM:"):
                found["rss_peak_mib"] = round(int(line.split()[1]) / 1024.0, 1)
    times = os.times()
    found["cpu_s"] = round(times.user + times.system + times.children_user + times.children_system, 3)
    began = start_ticks() / os.sysconf("SC_CLK_TCK")
    found["lived_s"] = round(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 3)
    return found


def find_innermost(error: BaseException) -> BaseException:
    """Return the first exception of a chain, the cause of the others."""
    seen = set()
    while id(error) not in seen:
        seen.add(id(error))
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None:
            break
        error = before
    return error


def strip_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drop frames of gpulaunch and of runpy from the start of a traceback."""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith((OUR_MODULES, "<frozen runpy>")) and os.path.basename(name) != "runpy.py":
            break
        trace = trace.tb_next
    return trace


def _places(trace: TracebackType | None) -> tuple[str, str]:
    """Return file:line of the innermost frame, and of the innermost one in the user's own code."""
    found = own = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        found = "%s:%d" % (name, trace.tb_lineno)
        library = (
            "site-packages" in name
            or "dist-packages" in name
            or name.startswith(("<", sys.base_prefix + "/lib", OUR_MODULES))
        )
        if not library:
            own = found
        trace = trace.tb_next
    return found, own
