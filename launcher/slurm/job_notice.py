"""Slurm's notice that a job ends soon: a signal to the job's step, and what the controller says of it."""

import signal
import threading
import time

from launcher.errors import GpulaunchError
from launcher.follow.job_end import PREEMPTED, TIME_LIMIT, JobEnd
from launcher.slurm.commands import open_local_commands, run_slurm
from launcher.slurm.jobs import Allocation
from preflight import regex as re

TO_THE_STEP = "Slurm has sent {} to the job's step"
_TIMEOUT_S = 10.0
_OWN_SIGNAL_S = 1.0
_STATE = re.compile(r"\bJobState=(\S+)")
_PREEMPTED = re.compile(r"\bPreemptTime=\d")
_END = re.compile(r"\bEndTime=(\d\S+)")


class JobNotice:
    """Hears signals that Slurm sends to the job's step, and asks the controller once what they mean.

    A preemption without `--signal` or `preempt_send_user_signal` is announced so: SIGCONT and SIGTERM to the
    steps, nothing to the batch script, SIGKILL to all after the partition's GraceTime. The job is RUNNING
    until then; PreemptTime of `scontrol show job` is what `scancel --signal=TERM` does not set.
    """

    def __init__(self, allocation: Allocation) -> None:
        self._allocation = allocation
        self._lock = threading.Lock()
        self.heard_at = 0.0  # when the first signal came, by the wall clock; 0: none has come
        self._answered = threading.Event()
        self._end: JobEnd | None = None

    def hear(self, number: int) -> None:
        """Take a signal that a task has received; those after the first say nothing new."""
        with self._lock:
            if self.heard_at:
                return
            self.heard_at = time.time()
        threading.Thread(target=self._ask, args=(number,), daemon=True).start()

    def read(self, timeout_s: float = 0.0) -> JobEnd | None:
        """Return what Slurm has announced, None where it has announced nothing, or not answered in time."""
        if not self.heard_at or not self._answered.wait(timeout_s):
            return None
        return self._end

    def _ask(self, number: int) -> None:
        argv = ("scontrol", "show", "job", self._allocation.name)
        try:
            text = run_slurm(open_local_commands(self._allocation.environ), argv, timeout_s=_TIMEOUT_S)
        except GpulaunchError:
            text = ""
        self._end = describe_end(number, text)
        if _state(text) not in ("", "RUNNING"):
            time.sleep(_OWN_SIGNAL_S)  # the job is over: Slurm signals this process as well, which says so
        self._answered.set()


def describe_end(number: int, text: str) -> JobEnd:
    """Return what a signal to the step means, by what `scontrol show job` says then ("": nothing)."""
    found = _END.search(text)
    try:
        until = time.mktime(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S")) if found is not None else 0.0
    except ValueError:
        until = 0.0
    if _PREEMPTED.search(text):
        return JobEnd(PREEMPTED, until)
    if _state(text) not in ("", "RUNNING"):
        return JobEnd(f"Slurm ends this job ({_state(text)})", until)
    if number == signal.SIGUSR1:
        return JobEnd(TIME_LIMIT, until)
    return JobEnd(TO_THE_STEP.format(signal.Signals(number).name))


def _state(text: str) -> str:
    found = _STATE.search(text)
    return found[1] if found is not None else ""
