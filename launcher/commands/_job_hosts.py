"""The nodes of a Slurm job in place of hosts: inside the job, or from outside by its id."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

import click

from launcher.commands._host_access import HostAccess
from launcher.commands._host_options import SRUN, SSH, Transport
from launcher.config.inventory import HostEntry, Inventory, find_local_python
from launcher.config.node_sets import fold_hosts
from launcher.config.slurm_options import is_inside_job
from launcher.errors import BadInput
from launcher.rundir.run_id import is_job_id
from launcher.terminal.output import echo
from launcher.transports.base import Connection

if TYPE_CHECKING:
    from launcher.slurm.jobs import Allocation

_T = TypeVar("_T")
_SLOW_S = 3.0


def find_job(transport: Transport | None, *, names_hosts: bool, detach: bool = False) -> "Allocation | None":
    """Return the job whose nodes are to be taken, None where hosts are meant. Raises BadInput, SlurmError."""
    if transport is None and (names_hosts or not is_inside_job()):
        return None
    if transport == SSH and names_hosts:
        return None
    if detach:
        raise BadInput(
            "--detach: in a Slurm job nothing outlives its step",
            "gpulaunch submit -c NAME submits a job, which continues without you",
        )
    from launcher.slurm.jobs import read_allocation  # noqa: PLC0415 - only in a job of Slurm

    return read_allocation()


def reach_job(
    access: HostAccess,
    job: "Allocation",
    transport: Transport | None,
    base: Path,
    *,
    typed: Sequence[str] = (),
    linger_s: float = 3.0,
) -> tuple[HostAccess, tuple[HostEntry, ...]]:
    """Return how to reach the nodes of a job, and their entries.

    `typed`: what the command line names of them, nothing: all. `linger_s`: how long what runs on it has to
    end once this process is gone. Raises BadInput for a typed host that is not a node of the job.
    """
    if transport == SSH:
        return access, access.resolve(job.nodes)
    if typed:
        job = replace(job, nodes=select_nodes(job, typed, access.inventory))
    from launcher.slurm.srun_step import StepHosts, build_node_entries  # noqa: PLC0415 - only in a job of Slurm

    hosts = StepHosts(
        job, step_python([access.inventory.lookup(node) for node in job.nodes]), linger_s=linger_s
    )
    workdir = str((Path.cwd() / base).resolve())
    entries = build_node_entries(job.nodes, access.inventory, hosts, workdir=workdir)
    names = {entry.name for entry in entries}

    def open_entry(entry: HostEntry) -> Connection:
        return hosts.open(entry) if entry.name in names else access.open(entry)

    found = replace(
        access,
        open=open_entry,
        close=hosts.close,
        nodes=entries,
        job_notice=hosts.notice,
        job=job.name,
        shards=None,
    )
    return found, entries


def select_nodes(job: "Allocation", words: Sequence[str], inventory: Inventory) -> tuple[str, ...]:
    """Return the nodes of a job that words name, `all` being the job's, in its order."""
    nodes = {node: inventory.lookup(node) for node in job.nodes}
    named = {entry.name for entry in replace(inventory, hosts=nodes).resolve(words)}
    if others := named - set(nodes):
        raise BadInput(
            f"{fold_hosts(sorted(others))}: no node of Slurm job {job.name}, which has {fold_hosts(nodes)}",
            "name nodes of the job, or leave out --transport srun to reach others by ssh",
        )
    return tuple(node for node in nodes if node in named)


def step_python(nodes: Iterable[HostEntry]) -> str:
    """Return the interpreter that starts the step's tasks: that of most nodes, in doubt the one we run on.

    A node whose own interpreter is wrong must not take the step of all others with it.
    """
    ours = find_local_python()
    named = [node.python if node.in_inventory or node.names_python else ours for node in nodes]
    counts = Counter(named)
    most = [python for python in named if counts[python] == max(counts.values())]
    return most[0] if len(set(most)) == 1 else ours


def ask_slurm(question: Callable[[], _T]) -> _T:
    """Return the answer; say so where Slurm, whose commands wait long for a silent controller, is slow."""
    words = "Slurm has not answered yet, gpulaunch waits (`scontrol ping` says whether its controller is up)"
    notice = Timer(_SLOW_S, echo, (words,), {"err": True})
    notice.daemon = True
    notice.start()
    try:
        return question()
    finally:
        notice.cancel()


def reach_run(access: HostAccess, run: str, hosts: Sequence[str], *, waits: bool = False) -> HostAccess:
    """Return how to reach what a word of a command means: the id of a Slurm job means its nodes.

    `waits`: for the job's start. Raises BadInput for a job that does not run.
    """
    if hosts or not is_job_id(run):
        return access
    from launcher.slurm.jobs import await_job, read_job  # noqa: PLC0415 - only for a job's id

    job = await_job(run, partial(echo, err=True)) if waits else ask_slurm(partial(read_job, run))
    found, _ = reach_job(access, job, SRUN, Path())
    click.get_current_context().call_on_close(found.close)
    return found
