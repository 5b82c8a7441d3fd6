"""`preflight --prolog`: one line and exit code 0 or 1, whatever happens, in less than ten seconds."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Never

from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions
from launcher.config.inventory import LOCALHOST
from launcher.config.local_entries import resolve_local_entries
from launcher.errors import BadInput, GpulaunchError
from launcher.exit_codes import ExitCode
from launcher.host_checks.node_health import check_node
from launcher.terminal.output import echo
from launcher.text import one_line
from preflight.job import Job

LIMIT_S = 9


class _TooSlow(Exception):
    """The time is over."""


def run_prolog(hosts: tuple[str, ...], options: HostOptions, ignore: frozenset[str]) -> int:
    """Check this node; print its one line, return 0 where it is fit for jobs and 1 where it is not."""
    if hosts not in ((), (LOCALHOST,)):
        raise BadInput("--prolog is about the node that it runs on", "gpulaunch preflight localhost --prolog")
    try:
        with _time_limit():
            access = open_host_access(options)
            entry = resolve_local_entries(access.resolve((LOCALHOST,)), Job())[0]
            health = check_node(entry, access.open, ignore)
    except _TooSlow:
        echo(f"the checks did not end within {LIMIT_S} s: the driver or a disk does not answer")
        return ExitCode.NEGATIVE
    except GpulaunchError as error:
        echo(one_line(error.message, 240))
        return ExitCode.NEGATIVE
    echo(health.line)
    return ExitCode.OK if health.fit else ExitCode.NEGATIVE


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise _TooSlow in the main thread once the time is over."""

    def on_alarm(_number: int, _frame: FrameType | None) -> Never:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
