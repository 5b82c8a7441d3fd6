"""Setup before the script: output, GPUs, the tie to the supervisor, and stack dumps."""

import os
import signal
import sys

from ..procfs import read_stat
from .context import RankContext


def redirect_output(place: RankContext) -> None:
    """Send stdout and stderr to this rank's own log, whole lines at once, as on a terminal."""
    path = os.path.join(place.run_dir, "rank-%d.log" % place.rank)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def restrict_visible_gpus(place: RankContext) -> None:
    """Show this rank only its own GPU, where the plan requests that. LOCAL_RANK keeps its meaning."""
    if os.environ.get("GPULAUNCH_MASK") != "1":
        return
    visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[place.local_rank]


def die_with_supervisor(place: RankContext) -> None:
    """Have the kernel kill this process group when supervisor and guardian are both gone.

    They hold the write end of a FIFO; when its last writer is gone the kernel signals the owner of each
    reader (F_SETOWN, F_SETSIG, O_ASYNC: fcntl(2)). This needs no thread that a fork in the script could
    break, and it works on a rank that is stopped or ignores signals. The descriptor stays open for good.
    """
    import fcntl

    fd = os.open(os.path.join(place.run_dir, "lifeline"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_inheritable(fd, sys.argv[1:2] == ["--exec"])  # a program that replaces this process keeps it
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    try:
        os.read(fd, 1)
    except BlockingIOError:  # there is a writer, whose end is signalled
        return
    os.killpg(0, signal.SIGKILL)  # both were gone before the signal was asked for


def register_rank(place: RankContext) -> None:
    """Report this rank's identity to the supervisor and the client, before its script can fail."""
    place.report(
        "rank",
        pid=place.pid,
        ticks=start_ticks(),
        local_rank=place.local_rank,
        world_size=place.world_size,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
    )


STACKS_SIGNAL = signal.SIGRTMAX - 4  # as in stacks.py; no known program uses it
STACKS_FD = 900  # a high number, which scripts that close foreign descriptors rarely reach


def enable_stack_dumps(place: RankContext) -> None:
    """Have one signal dump the stack of every thread to stacks-rank-N.log, even of one stuck in native code.

    faulthandler does that in C, without the GIL, and forked workers inherit it. SIGUSR1, SIGUSR2 and the
    script's own faulthandler are left alone.
    """
    import faulthandler
    import fcntl

    path = os.path.join(place.run_dir, "stacks-rank-%d.log" % place.rank)
    low = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, STACKS_FD)
        os.close(low)
    except OSError:  # the limit of descriptors is low
        fd = low
    faulthandler.register(STACKS_SIGNAL, file=fd, all_threads=True)


def report_crashes() -> None:
    """Have a segmentation fault in native code write the Python stack to the rank's log."""
    import faulthandler

    faulthandler.enable()


def start_ticks() -> int:
    """Return the start time of this process, in clock ticks since boot: with the pid, its identity."""
    own = read_stat(os.getpid())
    if own is None:
        raise OSError("/proc does not show this process")
    return own.start_ticks
