"""Start and exit of a run's daemon processes."""

import contextlib
import os
import signal
import sys
from typing import Any, Callable, NoReturn

from ..processes import PR_SET_CHILD_SUBREAPER, call_prctl
from ..run_dir import LIFELINE, SUPERVISOR_LOG


def run_and_exit(life: Callable[[], int]) -> NoReturn:
    """Run a daemon, with its errors in supervisor.log, and exit with its code before the caller's."""
    code = 1
    try:
        code = life()
    except BaseException:
        import traceback  # rarely needed

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def daemonize(spec: dict[str, Any], run_dir: str, keep: set[int]) -> None:
    """Become a daemon of the run: detached, with private files, holding the lifeline."""
    detach_process(run_dir, keep)
    spec["umask"] = os.umask(0o077)
    call_prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Both ends in one descriptor: opening does not wait for a reader, and both processes hold it.
    os.open(os.path.join(run_dir, LIFELINE), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def detach_process(run_dir: str, keep: set[int]) -> None:
    """Release the terminal, all inherited descriptors except those to keep, and blocked signals.

    A client may have been started with SIGTERM blocked, and no run could be stopped that inherited that.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(os.path.join(run_dir, SUPERVISOR_LOG), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))
