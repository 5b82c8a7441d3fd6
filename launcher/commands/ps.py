"""gpulaunch ps: list runs, found by asking the hosts."""

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from launcher.commands._answer import encode_unreachable, json_option
from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions, add_host_options, add_hosts_argument
from launcher.commands._job_hosts import reach_run
from launcher.commands._on_end import deliver_due
from launcher.commands._param_types import flag
from launcher.config.host_access_args import complete_run_commands
from launcher.config.inventory import LOCALHOST, HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.config.slurm_options import is_inside_job
from launcher.errors import BadInput, HostInterrupted, SlurmError
from launcher.exit_codes import ExitCode
from launcher.launch.signals import report_stop_signals
from launcher.planning.run_record import read_run_records
from launcher.rundir.run_id import run_name
from launcher.runs.gone_hosts import describe_gone, describe_silent, list_gone_hosts, list_silent, list_unseen
from launcher.runs.render import encode_runs, render_runs
from launcher.runs.search import explain_unanswered, search_all, search_hosts
from launcher.slurm.commands import NO_CLUSTER
from launcher.slurm.jobs import list_own_jobs
from launcher.terminal.output import echo, echo_json, echo_lines
from launcher.text import count_noun, group_alike, name_first

_ANSWER_S = 20.0
"""A list of the others is worth more than the runs of a host that answers later."""


@click.command("ps")
@add_hosts_argument
@flag("--all", "-a", "ended", "Also runs that are over.")
@json_option
@add_host_options
@report_stop_signals()
def command(hosts: tuple[str, ...], *, ended: bool, as_json: bool, **given: Any) -> int:
    """List your runs on HOSTS: those that run, and those that were lost.

    Without HOSTS: all of hosts.yaml, this machine, and the hosts of runs that were started on this machine,
    but only with --all those that no longer answer since these runs are over.
    The id of a Slurm job means its nodes, in this command and wherever one but `rm` takes RUN.
    Exit code 3: a host that was named did not answer, or none did but this machine.
    """
    access = reach_run(open_host_access(HostOptions(**given)), hosts[0] if len(hosts) == 1 else "", ())
    listed = access.inventory.hosts
    asks_all = bool(ended or hosts or access.nodes)
    records = read_run_records()
    gone = () if asks_all else list_gone_hosts(records.values(), listed)
    entries = access.nodes or access.with_open_keys_named(search_hosts(access.inventory, hosts, without=gone))
    found = search_all(
        entries,
        access.open,
        width=access.width,
        listed=listed,
        ended=ended,
        gpu_use=True,
        on_interrupt=_interrupted,
        timeout_s=_ANSWER_S,
    )
    if access.job:  # other jobs, such as tasks of the same array, may have runs on its nodes
        found = replace(found, runs=tuple(run for run in found.runs if run.slurm_job == access.job))
    errors = found.errors
    worst = max((error.exit_code for error in found.errors.values()), default=0)  # UNREACHABLE or INTERRUPTED
    others = {entry.name for entry in entries} - {LOCALHOST}
    is_missed = hosts or (others or {LOCALHOST}) <= errors.keys() or worst == ExitCode.INTERRUPTED
    code = worst if is_missed else int(ExitCode.OK)
    answered = [entry for entry in entries if entry.name not in errors]
    if as_json:
        document = encode_runs(found.runs, {}, found.strays, found.other_hosts)
        unreachable = encode_unreachable(errors, access.inventory.access_words)
        echo_json({**document, **unreachable, "exit_code": code})
    elif found.runs:
        columns = os.get_terminal_size(1).columns or None if sys.stdout.isatty() else None
        names = {entry.name for entry in answered}
        shown = render_runs(found.runs, time.time(), columns, answered=names)
        echo_lines(complete_run_commands(line, access.inventory.access_words) for line in shown)
    else:
        echo(_describe_absence([entry.name for entry in answered], found.other_hosts, ended=ended))
    strays = group_alike((words, run_id) for run_id, each in found.strays.items() for words in each)
    rejected = (f"{name_first(run_ids, 2)}: {words}" for words, run_ids in strays.items())
    runs = errors.keys() & {*records, *map(run_name, records)} if code else errors
    fixes = {name: f"if the run is meant: gpulaunch attach {name}" if code else "" for name in runs}
    unanswered = explain_unanswered(found.errors, access.inventory.access_words, fixes)
    echo_lines((*rejected, *unanswered), err=True)
    if code == ExitCode.INTERRUPTED:
        return code
    unseen = list_unseen(records, {run.run_id for run in found.runs}, found.errors)
    echo_lines([f"not known to be over: {name_first(unseen, 3)}"] if unseen else [], err=True)
    echo_lines([describe_gone(gone)] if gone else [], err=True)
    silent = () if hosts or access.nodes else list_silent(records.values(), listed, found.errors)
    echo_lines([describe_silent(silent)] if silent else [], err=True)
    echo_lines(() if hosts else _describe_slurm_jobs(), err=True)
    deliver_due(access, answered, {run.run_id for run in found.runs if run.is_live})
    return code


def _interrupted(entry: HostEntry) -> HostInterrupted:
    return HostInterrupted(entry.name, "interrupted: no answer yet", f"gpulaunch ps {entry.name}")


def _describe_slurm_jobs() -> Iterator[str]:
    """Yield on a login node which commands list the runs of this user's Slurm jobs."""
    try:
        jobs = list_own_jobs() if shutil.which("squeue") and not is_inside_job() else ()
    except (BadInput, SlurmError) as silence:
        if NO_CLUSTER not in silence.message:  # else Slurm's commands are merely installed
            yield f"runs of Slurm jobs may be missing from this list: {silence.message}"
            yield from [f"  fix: {silence.fix}"] if silence.fix else []
        return
    if jobs:
        what = f"{count_noun(len(jobs), 'Slurm job')} of yours with gpulaunch"
        yield f"the runs of {what} are not in this list: gpulaunch ps {', gpulaunch ps '.join(jobs)}"


def _describe_absence(answered: Sequence[str], other_hosts: Iterable[str], *, ended: bool) -> str:
    if not answered:
        return "no host answered"
    names = fold_hosts(other_hosts)
    others = f" (their home also has runs of {names})" if names else ""
    found, more = ("", "") if ended else (" lives", "gpulaunch ps --all lists ended ones, ")
    return (
        f"no run of yours{found} on {fold_hosts(answered)}{others}; {more}gpulaunch top shows what others run"
    )
