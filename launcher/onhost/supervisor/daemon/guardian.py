"""The guardian: starts the supervisor, waits for it, and ends the run if the supervisor is killed."""

import contextlib
import json
import os
import signal
import time
from typing import Any

from ...event_file import EVENTS
from ...run_cgroup import find_group
from ..client_files import is_stopped_by_person, read_stop_request
from ..end_causes import REFUSED, REQUEST, SUPERVISOR
from ..events import write_event
from ..files import free_space, write_file
from ..gpu_claims import acquire_claims, release_claims
from ..next_start import announce_keeper, hold_order
from ..node import read_node_location
from ..protocol import RequestRefused
from ..run_dir import STATE, read_state
from ..run_processes import end_all
from .daemonize import daemonize
from .supervised_run import SupervisedRun, answer_start
from .supervisor import supervise_run


def run_guardian(spec: dict[str, Any], run_dir: str, done: int) -> int:
    """Start the supervisor and outlive it; return the guardian's exit code, in its child the supervisor's.

    The supervisor's first state is written to the descriptor `done`.
    """
    daemonize(spec, run_dir, {done})
    try:
        claims, problem = acquire_claims(spec)
    except RequestRefused as refusal:
        report_refusal(spec, run_dir, done, refusal)
        return 1
    hold_order(spec)
    me = os.getpid()
    pid = os.fork()
    if pid == 0:
        return supervise_run(SupervisedRun(spec, run_dir, me), done, claims, problem)
    os.close(done)
    guard_supervisor(run_dir, pid, spec)
    release_claims(claims)
    if spec.get("order_fd"):
        from .restart_keeper import keep_restart  # compiled for runs that ask for it

        keep_restart(run_dir, spec)
    return 0


def report_refusal(spec: dict[str, Any], run_dir: str, done: int, refusal: RequestRefused) -> None:
    """Report the reason why the run does not start, to the client and in its directory."""
    why = str(refusal)
    answer_start(done, {"refused": why, "fix": refusal.fix})
    state = {"run_id": spec["run_id"], **read_node_location(), "phase": "ended", "run_dir": run_dir}
    state.update(exit=build_final_state([], why, REFUSED), ended=time.time())
    write_file(os.path.join(run_dir, STATE), json.dumps(state))


def guard_supervisor(run_dir: str, pid: int, spec: dict[str, Any]) -> None:
    """Reap until the supervisor has exited, then end and report any remaining processes of the run."""
    code = wait_for(pid)
    state = read_state(run_dir)
    if state.get("phase") == "ended":
        return
    events = -1  # a write to it fails, as all others do, when the run directory is gone
    with contextlib.suppress(OSError):
        events = os.open(os.path.join(run_dir, EVENTS), os.O_WRONLY | os.O_APPEND)
    stop = read_stop_request(run_dir) if is_stopped_by_person(run_dir) else None
    if stop is not None and state.get("phase") != "stopping":  # the supervisor has not said so
        said = {"cause": REQUEST, "requested": True, "grace_s": stop.grace_s}
        write_event(events, "stopping", {"why": stop.why, **said})
    died = write_event(events, "supervisor_died", {"code": code})
    left = end_all(run_dir, {os.getpid()}, find_group(state))
    free_space(run_dir)
    with contextlib.suppress(OSError):
        os.write(events, died)
    why = "the supervisor was killed" if code < 0 else "the supervisor failed (supervisor.log says why)"
    end = build_final_state(left, why, SUPERVISOR)
    if stop is not None:
        end.update(why="%s; %s" % (stop.why, why), cause=REQUEST, requested=True)
    write_event(events, "ended", end)
    state.update(phase="ended", exit=end, ended=time.time())
    announce_keeper(run_dir, spec, end, os.getpid())
    with contextlib.suppress(OSError):
        write_file(os.path.join(run_dir, STATE), json.dumps(state))


def wait_for(pid: int) -> int:
    """Reap every child until this one has ended; return its exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a stop request is the supervisor's to handle
    while True:
        try:
            ended, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return 0
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def build_final_state(left: list[int], why: str, cause: str) -> dict[str, Any]:
    """Return the final state of a run whose supervisor died without writing one, or never was."""
    unknown: dict[str, Any] = {"launcher_code": None, "ranks": {}, "port_free": None}
    return {**unknown, "remaining_pids": left, "why": why, "cause": cause}
