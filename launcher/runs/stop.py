"""Ending a run on every node at once, and removing what is over."""

from collections.abc import Sequence
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, HostInterrupted
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import fanout
from launcher.runs.request import request_state
from launcher.terminal.slow_hosts import name_slow_hosts

STOP_TIMEOUT_S = 60.0  # after the grace: SIGKILL, processes that hang in the kernel, a slow link


def stop_run(
    run_id: str,
    entries: Sequence[HostEntry],
    open_entry: OpenConnection,
    *,
    grace_s: float,
    why: str,
    is_command: bool = False,
    is_failure: bool = False,
) -> "list[dict[str, Any] | GpulaunchError]":
    """End the run on each node; return each one's last state, or why it was not reached.

    Ctrl-C is raised, but for `is_command` the HostInterrupted of each node that has not answered.
    `is_failure`: it is for a failure elsewhere, so that the run may still be started again.
    """
    request = {"mode": "stop", "run_id": run_id, "grace_s": grace_s, "why": why, "failed": is_failure}

    def one(entry: HostEntry) -> dict[str, Any]:
        with open_entry(entry) as connection:
            return request_state(connection, entry.python, request, timeout_s=grace_s + STOP_TIMEOUT_S)

    # All at once: one node's end hangs another.
    width = max(1, len(entries))
    if not is_command:
        return fanout(one, entries, width=width)
    return fanout(one, entries, width=width, on_interrupt=_interrupted, on_slow=name_slow_hosts)


def remove_run(
    run_id: str, entries: Sequence[HostEntry], open_entry: OpenConnection
) -> "list[dict[str, Any] | GpulaunchError]":
    """Delete the run's directory on each host; a host refuses while anything of the run lives on it."""

    def one(entry: HostEntry) -> dict[str, Any]:
        with open_entry(entry) as connection:
            return request_state(connection, entry.python, {"mode": "remove", "run_id": run_id})

    return fanout(one, entries, on_interrupt=_interrupted, on_slow=name_slow_hosts)


def _interrupted(entry: HostEntry) -> GpulaunchError:
    return HostInterrupted(entry.name)
