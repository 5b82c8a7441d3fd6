"""The end of a Slurm job when a node has gone bad, or its time is over."""

import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from launcher.commands._launch_request import RunRequest
from launcher.errors import BadNodeError, GpulaunchError
from launcher.exit_codes import ExitCode
from launcher.follow.job_end import PREEMPTED, TIME_LIMIT, JobEnd, JobEndNotice
from launcher.follow.outcome import Outcome
from launcher.host_checks.result import PreflightResult
from launcher.restart.decision import RunFailure, classify_failure
from launcher.restart.replacement import HostAssignment, list_host_faults
from launcher.slurm.jobs import Allocation
from launcher.slurm.requeue import BadNodes, exclude_and_requeue, requeue_job, save_record
from launcher.text import spell_duration

Say = Callable[[str], None]
_OF_NODES = ("host", "gpu")
_SLACK_S = 10.0  # of Slurm's scheduler, past the end that it has announced
_MAX_GRACE_S = 3600.0


def record_path(logs: Path, job: Allocation) -> Path:
    """Return where it is kept what a job goes without."""
    return logs / f"slurm-{job.job}.json"


def keep_first_start(job: Allocation, logs: Path) -> None:
    """Keep since when a job runs: where Slurm itself requeues it (preemption, a node that failed), the next
    start then knows which checkpoints are its own. A directory that cannot be written is reported elsewhere.
    """
    with suppress(OSError):
        save_record(record_path(logs, job), job, excluded="", reasons={})


def refuse_bad_nodes(
    request: RunRequest, job: Allocation, result: PreflightResult, error: GpulaunchError, logs: Path, say: Say
) -> GpulaunchError:
    """Return the error to raise after a preflight in a job: another one where single nodes are at fault."""
    lineup = HostAssignment(result.entries)
    found = {fault.host: fault.why for fault in list_host_faults(lineup, result)}
    shared = len(found) == len(result.entries) > 1  # what all have in common condemns none
    if not found or shared:
        return error
    _give_up(job, found, request, logs, say)
    return BadNodeError(error.message, error.fix)


def conclude_job(
    request: RunRequest, job: Allocation, outcome: Outcome, left_out: Mapping[str, str], logs: Path, say: Say
) -> int:
    """Requeue the job where that helps, and report bad nodes; return the exit code."""
    limit = request.config.slurm.requeue if request.config.slurm is not None else 0
    end = read_announced_end(outcome, request.access.job_notice)
    if end is not None:
        handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as below
        why = requeue_job(job, limit, record_path(logs, job))
        if why and end.is_preemption:
            signal.signal(signal.SIGTERM, handler)
            leave_to_slurm(end, why, say)
        else:
            say(f"Slurm does not start the job again: {why}" if why else "Slurm starts the job again")
        return outcome.exit_code
    last = _bad_nodes(outcome)
    former = outcome.restarts.starts if outcome.restarts is not None else ()
    before = {each.identity[2]: each.why for each in former if each.identity[0] in _OF_NODES}
    everyone = {node: why for node, why in {**left_out, **before, **last}.items() if node in job.nodes}
    if outcome.exit_code == 0 or not last:
        if everyone:
            _report(BadNodes(job.job, everyone, "replaced"), say)
        return outcome.exit_code
    _give_up(job, everyone, request, logs, say)
    return ExitCode.BAD_NODE


def read_announced_end(outcome: Outcome, notice: JobEndNotice | None) -> JobEnd | None:
    """Return the end of the job that Slurm has announced, None for a run that has ended for another reason.

    What fails while its job is preempted starts elsewhere; what a person stops does not.
    """
    end = notice.read() if notice is not None else None
    failed = outcome.verdict in ("failed", "aborted") or outcome.why == PREEMPTED
    if end is not None and end.is_preemption and failed:
        return end
    return JobEnd(TIME_LIMIT) if outcome.why.startswith(TIME_LIMIT) else None


def leave_to_slurm(end: JobEnd, why: str, say: Say) -> None:
    """Wait until Slurm ends the job: one that has ended itself by then, Slurm never starts again."""
    left_s = end.until - time.time() if end.until else _MAX_GRACE_S  # not known of a job without a time limit
    left_s = min(max(0.0, left_s) + _SLACK_S, _MAX_GRACE_S)
    say(
        f"gpulaunch does not requeue the job ({why}), and waits up to {spell_duration(left_s)} for Slurm"
        " to end it: with PreemptMode=REQUEUE Slurm then starts it again"
    )
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait(left_s)
    signal.signal(signal.SIGTERM, before)


def _bad_nodes(outcome: Outcome) -> dict[str, str]:
    """Return the nodes to blame for the end of a run, with the reason."""
    if outcome.exit_code == 0:
        return {}
    reason = classify_failure(outcome)
    found = dict(outcome.cleanup.lost)
    if isinstance(reason, RunFailure) and reason.category in _OF_NODES and reason.host:
        found.setdefault(reason.host, reason.description)
    return found


def _give_up(job: Allocation, nodes: Mapping[str, str], request: RunRequest, logs: Path, say: Say) -> None:
    limit = request.config.slurm.requeue if request.config.slurm is not None else 0
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # to requeue a job ends it: this process must still report
    _report(exclude_and_requeue(job, nodes, limit, record_path(logs, job)), say)


def _report(found: BadNodes, say: Say) -> None:
    for line in (*found.admin_lines, found.line):
        say(line)
