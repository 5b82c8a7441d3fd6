"""One srun step on all nodes of our job, by which they are reached as hosts."""

import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import replace

from launcher.config.inventory import HostEntry, Inventory, find_local_python
from launcher.config.local_entries import CUDA_VISIBLE_DEVICES, parse_visible_devices
from launcher.errors import BadInput, GpulaunchError, HostError, StepEnded
from launcher.follow.job_end import PREEMPTED, TIME_LIMIT, JobEnd
from launcher.remote.program_source import build_bootstrap_argv, compress_program, read_program_source
from launcher.slurm.commands import explain_missing_command, open_local_commands, run_slurm
from launcher.slurm.jobs import Allocation, list_usable_nodes
from launcher.transports.base import Connection
from launcher.transports.step.step import SlurmStep, StepConnection
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


SRUN = (
    "srun",
    "--overlap",  # beside other steps, that of a shell or of the batch script, with what those have
    "--ntasks-per-node=1",
    "--mem=0",  # all memory of the job, not a task's share
    "--cpu-bind=none",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--no-kill",  # a node that fails takes only its own task with it
    "--mpi=none",
    "--quiet",
)
"""No --pty and no --unbuffered: either would give tasks a pseudo terminal, which changes bytes. No
--cpus-per-task either: it implies --exact, and leaves a task no more than that many processors."""


class StepHosts:
    """Opens nodes of a job; the step starts with the first, and again with the rest once it has ended."""

    def __init__(self, allocation: Allocation, python: str, *, linger_s: float = 3.0) -> None:
        """`linger_s`: how long what runs on the nodes has to end once this process is gone."""
        self._linger_s = linger_s
        self.allocation = allocation
        self.notice = JobNotice(allocation)
        self._python = python
        self._step: SlurmStep | None = None
        self._lock = threading.Lock()

    def open(self, entry: HostEntry) -> Connection:
        """Return a connection to a node. Raises HostError."""
        step = self._started()
        if entry.alias not in step.nodes:
            raise StepEnded(entry.name, "Slurm reports that the node is down")
        step.task(entry.alias)
        return StepConnection(step, entry.alias, entry.name)

    def visible_gpus(self, node: str) -> str | None:
        """Return CUDA_VISIBLE_DEVICES of the step on a node, None where Slurm sets none. Raises HostError."""
        step = self._started()
        if node not in step.nodes:
            return None
        visible = step.task(node).get(CUDA_VISIBLE_DEVICES)
        return visible if isinstance(visible, str) else None

    def close(self) -> None:
        """End the step."""
        step, self._step = self._step, None
        if step is not None:
            step.close()

    def _started(self) -> SlurmStep:
        with self._lock:  # nodes are opened by many threads
            if self._step is not None and not self._step.has_ended:
                return self._step
            nodes = list_usable_nodes(self.allocation)
            count = str(len(nodes))
            where = (f"--jobid={self.allocation.job}", "-N", count, "-n", count, "-w", ",".join(nodes))
            step = SlurmStep(
                (*SRUN, *where, *build_bootstrap_argv(self._python, "gpulaunch-step")),
                nodes,
                self.allocation.environ,
                compress_program(read_program_source("step_relay"), "step_relay.py"),
                linger_s=self._linger_s,
                on_signal=self.notice.hear,
            )
            try:
                step.start()
            except FileNotFoundError:
                raise explain_missing_command("srun") from None
            self._step = step
            return step


def build_node_entries(
    nodes: Iterable[str], inventory: Inventory, hosts: StepHosts, *, workdir: str
) -> tuple[HostEntry, ...]:
    """Return the entries of a job's nodes: as hosts.yaml has them, else with our interpreter and directory.

    Nodes of a cluster share their file system as a rule, so what is local is on all of them. Their GPUs are
    those that Slurm leaves to the step. A node whose task has not started is left as it is: to open it says
    why.
    """
    return tuple(_entry(node, inventory, hosts, workdir) for node in nodes)


def _entry(node: str, inventory: Inventory, hosts: StepHosts, workdir: str) -> HostEntry:
    entry = inventory.lookup(node)
    if entry.via is not None:  # what docker starts belongs to docker's service: it would outlive the job
        fix = "use --transport ssh, or list the node without via:"
        raise BadInput(f"{node}: via: ({entry.via}) cannot be used by srun inside a Slurm job", fix)
    if not (entry.in_inventory or entry.names_python):
        entry = replace(entry, python=find_local_python())
    entry = replace(entry, alias=node, workdir=entry.workdir or workdir)
    try:
        visible = hosts.visible_gpus(node)
    except HostError:
        return entry
    if visible is None or entry.gpus != "all":
        return entry
    return replace(
        entry,
        gpus=parse_visible_devices(visible),
        gpus_source=f"{CUDA_VISIBLE_DEVICES}={visible} of the Slurm step",
    )
