"""Jobs of Slurm, the one that we are in or one by its id: nodes, state, why one is pending, cancellation."""

import os
import shlex
import time
from collections.abc import Callable, Mapping

from launcher.config.host_names import is_plain_host
from launcher.config.slurm_options import JOB_ID
from launcher.errors import BadInput, SlurmError
from launcher.local.user import read_user_name
from launcher.rundir.run_id import is_job_id
from launcher.slurm.commands import open_local_commands, run_slurm, step_environment
from launcher.slurm.submit import WAIT_FIXES
from launcher.text import one_line
from preflight import regex as re
from preflight.frozen import dataclass

RESTARTS = "SLURM_RESTART_COUNT"
EARLIER_STARTS = "GPULAUNCH_EARLIER_STARTS"
"""How many starts the jobs before this one had, which it replaces: it starts with no restarts of its own."""
_DOWN = ("down", "fail", "unknown", "powered", "rebooting")
_GONE = re.compile(r"invalid job id", re.IGNORECASE)
_REASON = re.compile(r"\bReason=(\S+)")
_OUTPUT = re.compile(r"^\s*StdOut=(\S.*)$", re.MULTILINE)
_HALTED = ("SUSPENDED", "STOPPED")
_LIVES = ("RUNNING", "COMPLETING", "CONFIGURING", *_HALTED)
_NEVER = "DependencyNeverSatisfied"
_HELD = re.compile("held|hold", re.IGNORECASE)
_HELD_BY_ADMIN = "JobHeldAdmin"
_WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
_STARTS = (*_WAITS, "CONFIGURING")
_ENDED = re.compile(
    "CANCELLED|COMPLETED|FAILED|TIMEOUT|OUT_OF_MEMORY|NODE_FAIL|BOOT_FAIL|PREEMPTED|DEADLINE|REVOKED"
)
_ASK_EVERY_S = 0.5
_ASK_AT_LEAST_EVERY_S = 15.0
_GLANCE_S = 3.0  # for an answer that a command can do without
_MOST_LOOKED_AT = 8


class JobChanges(BadInput):
    """A job has not started, or is about to end."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A job that runs, and its nodes in Slurm's order. `environ` is what its commands get."""

    job: str
    nodes: tuple[str, ...]
    environ: Mapping[str, str]
    restarts: int = 0  # how often it was started again, also as the new job in place of one before
    began: float = 0.0  # when this process read it, by the wall clock
    task: str = ""  # ARRAY_TASK of a task of a job array

    @property
    def name(self) -> str:
        """How commands of Slurm name this job alone: the last task of an array has the array's id."""
        return self.task or self.job


@dataclass(frozen=True, slots=True)
class _JobState:
    """A line of squeue about a job, or about one task of a job array."""

    job: str  # its own id
    name: str  # 17, 17_3, or 17_[4-9] of tasks that wait
    state: str
    nodelist: str


def read_allocation(environ: Mapping[str, str] = os.environ) -> Allocation:
    """Return our job. Raises BadInput in none, in one that is over, or as one of several tasks of srun."""
    job = environ.get(JOB_ID, "")
    if not job.isdecimal():
        said = f'"{one_line(job, 40)}", which is not the id of a job' if job else "not set"
        raise BadInput(
            f"this is not a job of Slurm: SLURM_JOB_ID is {said}",
            "start gpulaunch inside salloc or sbatch, or let it write the job: gpulaunch submit -c NAME",
        )
    _refuse_one_task_of_many(environ)
    if environ.get("SLURM_HET_SIZE") or environ.get("SLURM_PACK_SIZE"):
        raise BadInput(
            f"Slurm job {job} is heterogeneous: it consists of several jobs, and one step cannot span them",
            "ask for all nodes in one job, or name the nodes: --hosts NODES --transport ssh",
        )
    found = next((each for each in _list_states(job, environ) if each.job == job), None)
    state = found.state if found is not None else ""
    if found is None or state != "RUNNING":
        raise BadInput(
            f"Slurm job {job} does not run: {_described(state)}; this shell has outlived it",
            "leave the shell (or `unset SLURM_JOB_ID`), and ask for a new job",
        )
    return _running(found, environ)


def _refuse_one_task_of_many(environ: Mapping[str, str]) -> None:
    """`srun gpulaunch run`, typed as one types it for torchrun, would launch as often as srun has tasks.

    An interactive shell (`srun -n8 --pty bash`) is the one task that has the terminal.
    """
    tasks, task = environ.get("SLURM_STEP_NUM_TASKS", ""), environ.get("SLURM_PROCID", "")
    if not (tasks.isdecimal() and task.isdecimal()) or int(tasks) < 2 or environ.get("SLURM_PTY_PORT"):
        return
    raise BadInput(
        f"this is task {task} of the {tasks} that srun has started, and each would take all nodes of the job",
        "leave srun out: gpulaunch starts its own step on all nodes, in a batch script and after salloc",
    )


def read_job(job: str, environ: Mapping[str, str] = os.environ) -> Allocation:
    """Return a job that runs, by its id or as ARRAY_TASK. Raises BadInput for one that does not."""
    found = _read_one(job, environ)
    state = found.state if found is not None else ""
    if found is not None and state == "RUNNING":
        return _running(found, environ)
    if state in _STARTS:
        reason = _shown(_REASON, job, environ).removesuffix("None")
        why = f" ({reason})" if reason else ""
        fix = f"{_when(reason, job)}; `gpulaunch stop {job}` cancels it"
        raise JobChanges(f"Slurm job {job} waits: it is {state}{why}", fix)
    shows = f"where it was submitted, gpulaunch report {job} shows its run, if it came to one"
    fix = f"`squeue -u $USER` lists your jobs; {'' if state else 'if it has run, '}{shows}"
    if state in _HALTED:
        fix = f"an operator's `scontrol resume {job}` continues it, `scancel {job}` ends it"
    elif state in _LIVES:
        fix = f"try again: `squeue -j {job}` says when it has ended"
        raise JobChanges(f"Slurm job {job} does not run: it is {state}", fix)
    elif state and (path := _shown(_OUTPUT, job, environ)):
        fix = f"gpulaunch diagnose {shlex.quote(path)} reads its output; {shows}"
    raise BadInput(f"Slurm job {job} does not run: {_described(state)}", fix)


def await_job(job: str, say: Callable[[str], None]) -> Allocation:
    """Return a job as `read_job` does, once it runs; `say` gets what it waits for, a silent Slurm too."""
    said, pause_s = "", _ASK_EVERY_S
    while True:
        try:
            return read_job(job)
        except (JobChanges, SlurmError) as wait:
            if isinstance(wait, SlurmError) and not said:
                raise
            if wait.message != said:
                say(f"{wait.message}; {wait.fix}")
            said = wait.message
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _ASK_AT_LEAST_EVERY_S)


def _when(reason: str, job: str) -> str:
    """Return what lets a job start that waits for this reason."""
    if reason == _NEVER:
        return "it never starts, for a job that it waits for has failed"
    if reason == _HELD_BY_ADMIN:
        return "an administrator holds it: ask for `scontrol release`"
    if "DRAINED" in reason or "NotAvail" in reason:
        return "`sinfo -R` names nodes that are down or drained, and why"
    if _HELD.search(reason):
        return f"`scontrol release {job}` lets it start; `sinfo -R` names nodes that failed"
    if reason in WAIT_FIXES:
        return f"it does not start as it is: {WAIT_FIXES[reason]} in the run config"
    return f"`squeue -j {job} --start` says when it may start"


def read_job_state(job: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the state of a job in Slurm's word, "" of an unknown one. Raises BadInput for mixed arrays."""
    found = _read_one(job, environ)
    return found.state if found is not None else ""


def _read_one(job: str, environ: Mapping[str, str]) -> _JobState | None:
    found = _list_states(job, environ)
    if any("+" in each.name for each in found):
        fix = f"`scancel {job}` ends it; ask for all nodes in one job"
        raise BadInput(f"Slurm job {job} is heterogeneous, and no run of gpulaunch spans one", fix)
    if len(found) > 1:
        live = [each.name for each in found if each.state in _LIVES] or [each.name for each in found]
        raise BadInput(
            f"Slurm job {job} is an array of several tasks, and each has a run of its own",
            f"name a task, such as {one_line(min(live), 40)}; `scancel {job}` ends all of them",
        )
    return found[0] if found else None


def _list_states(job: str, environ: Mapping[str, str]) -> list[_JobState]:
    """Return what Slurm says of a job: of an array a line for each task that has started."""
    argv = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%A|%i|%T|%N")
    try:
        output = run_slurm(open_local_commands(step_environment(environ)), argv)
    except SlurmError as failure:
        if not _GONE.search(failure.message):
            raise
        return []
    rows = (line.strip().split("|", 3) for line in output.splitlines())
    return [_JobState(*row) for row in rows if len(row) == 4]


def list_own_jobs(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return this user's jobs that run and whose batch script names gpulaunch, the newest first.

    Only the newest jobs are looked at. Raises SlurmError where Slurm does not answer soon, and
    BadInput where squeue cannot be started.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only where Slurm is

    commands = open_local_commands(step_environment(environ))

    def read_script(job: str) -> str:
        try:
            return run_slurm(commands, ("scontrol", "write", "batch_script", job, "-"), timeout_s=_GLANCE_S)
        except (BadInput, SlurmError):
            return ""

    argv = ("squeue", "-h", "-t", "RUNNING", "-u", read_user_name(), "-S", "-i", "-o", "%A|%i")
    pairs = [line.partition("|") for line in run_slurm(commands, argv, timeout_s=_GLANCE_S).split()]
    jobs = [(own, name) for own, _, name in pairs if is_job_id(own) and is_job_id(name)]
    looked_at = jobs[:_MOST_LOOKED_AT]
    with ThreadPoolExecutor(_MOST_LOOKED_AT) as pool:  # a controller that is slow is waited for once
        scripts = pool.map(read_script, [own for own, _ in looked_at])
        return tuple(
            name for (_, name), script in zip(looked_at, scripts, strict=True) if "gpulaunch" in script
        )


def _described(state: str) -> str:
    return f"it is {state}" if state else "Slurm does not know it: it never was, or ended a while ago"


def _running(found: _JobState, environ: Mapping[str, str]) -> Allocation:
    job, nodelist, clean = found.job, found.nodelist, step_environment(environ)
    names = run_slurm(open_local_commands(clean), ("scontrol", "show", "hostnames", nodelist)).split()
    if not names or not all(map(is_plain_host, names)):
        raise SlurmError(f"the nodes of Slurm job {job} cannot be read: {nodelist!r}", "")
    restarts = _count(environ, RESTARTS) + _count(environ, EARLIER_STARTS)
    task = found.name if "_" in found.name else ""
    return Allocation(job, tuple(names), clean, restarts, time.time(), task)


def list_usable_nodes(allocation: Allocation) -> tuple[str, ...]:
    """Return the nodes of a job that Slurm does not call down; all of them where it does not say."""
    argv = ("sinfo", "-h", "-N", "-n", ",".join(allocation.nodes), "-o", "%N|%T")
    try:
        output = run_slurm(open_local_commands(allocation.environ), argv)
    except SlurmError:
        return allocation.nodes
    rows = [line.partition("|") for line in output.splitlines()]
    down = {name for name, _, state in rows if state.startswith(_DOWN)}
    return tuple(node for node in allocation.nodes if node not in down)


def _count(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else 0


def _shown(field: "re.Pattern[str]", job: str, environ: Mapping[str, str]) -> str:
    """Return a field of what `scontrol show job` says, "" where it says nothing."""
    try:
        output = run_slurm(open_local_commands(step_environment(environ)), ("scontrol", "show", "job", job))
    except SlurmError:
        return ""
    found = field.search(output)
    return one_line(found[1], 400) if found else ""


def cancel_job(job: str) -> None:
    """Cancel a job. Raises SlurmError."""
    run_slurm(open_local_commands(), ("scancel", job))


def end_without_run(job: str) -> str:
    """Cancel a job that has not started; return so, or that one has ended, else "". Raises SlurmError."""
    state = read_job_state(job)
    if state in _WAITS:
        run_slurm(open_local_commands(), ("scancel", "--state=PENDING", job))
        return f"Slurm job {job} had not started; it is cancelled"
    return f"Slurm job {job} has ended: it is {state}" if _ENDED.fullmatch(state) else ""


def await_end(job: str, timeout_s: float) -> bool:
    """Wait for a job's end; return whether it has ended."""
    deadline = time.monotonic() + timeout_s
    while read_job_state(job) in _LIVES:
        if time.monotonic() > deadline:
            return False
        time.sleep(_ASK_EVERY_S)
    return True
