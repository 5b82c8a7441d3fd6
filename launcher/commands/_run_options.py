"""What every command about one run takes: RUN, and where to look for it."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Literal, TypeAlias

import click

from launcher.commands._answer import confirm
from launcher.commands._completion import complete_runs
from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._host_options import HostOptions, add_host_options
from launcher.commands._job_hosts import reach_run
from launcher.commands._param_types import Function, hosts_option
from launcher.config.inventory import LOCALHOST, HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.config.yaml_tree import find_nearest
from launcher.errors import GpulaunchError, HostError, HostsUnusable, RunNotKept, SlurmError
from launcher.local.project import local_runs_dir
from launcher.planning.plan import NodePlan
from launcher.planning.run_record import RunRecord, read_run_records
from launcher.rundir.layout import read_kept_outcome
from launcher.rundir.run_id import LAST, run_name
from launcher.runs.access import KnownHosts, RunAccess, access_run, open_heard
from launcher.runs.expected_run import RunMeaning, find_expected
from launcher.runs.gone_hosts import list_gone_hosts
from launcher.runs.last_run import find_other_project, read_local_scope
from launcher.runs.remote_run import RemoteRun
from launcher.runs.render import run_line
from launcher.runs.search import find_in_runs, search_hosts
from launcher.slurm.jobs import await_job
from launcher.terminal.output import echo
from launcher.text import one_line
from launcher.transports.ssh.config_parser import is_named
from preflight.errors import BadInput
from preflight.frozen import dataclass

_LOOK_EVERY_S, _LOOK_AT_LEAST_EVERY_S = 1.0, 8.0


@dataclass(frozen=True, slots=True)
class FoundRunOptions(HostOptions):
    """The values of what `run_options` adds to a command."""

    hosts: tuple[str, ...]


def run_options(function: Function) -> Function:
    """Add RUN, --hosts and how hosts are reached to a command."""
    return hosts_option("Where to look instead of every known host")(add_host_options(function))


def run_argument(function: Function, default: str = LAST) -> Function:
    """Add RUN, and to the help what it may be."""
    summary, gap, rest = (function.__doc__ or "").partition("\n\n")
    run = "RUN is a run's name, the start or the last six of its id, or `last`"
    function.__doc__ = f"{summary}\n\n    {run}{' (the default)' if default else ''}.{gap}{rest}"
    return click.argument("run", default=default, shell_complete=complete_runs)(function)


RunPreference: TypeAlias = Literal["newest", "live", "exact"]
RunNode: TypeAlias = tuple[NodePlan, HostEntry]


def find_run(
    word: str, access: HostAccess, options: FoundRunOptions, *, prefer: RunPreference = "newest"
) -> RemoteRun:
    """Return the run that a word means.

    Of several that the word fits it is the `newest` that was launched by this name, the only one that is
    `live`, or none (`exact`). With `live`, `last` is the last that is live, if any. Raises what
    `find_in_runs` raises.
    """
    if access.nodes:
        meaning = RunMeaning(partial(_of_job, access.job))
        try:
            return find_in_runs(
                LAST, access.nodes, access.open, width=access.width, warn=warn, meaning=meaning
            )
        except BadInput:  # all nodes have answered, and have none
            raise _no_run(access.job) from None
    records, listed = read_run_records(), access.inventory.hosts
    scope = read_local_scope(local_runs_dir(), records)
    choose = {"newest": scope.find_newest, "live": scope.find_live, "exact": scope.find_exact}[prefer]
    expected = find_expected(word, scope, records, live_wanted=prefer == "live")
    meant = {entry.name for entry in expected.record.entries} if expected is not None else set[str]()
    gone = set(list_gone_hosts(records.values(), listed)) - meant
    hosts = access.with_open_keys_named(search_hosts(access.inventory, options.hosts, without=gone))
    if expected is not None and expected.run_id == word and prefer == "newest" and not options.hosts:
        hosts = tuple(entry for entry in hosts if entry.name in meant)  # no other host has this very start
    fitting: list[RemoteRun] = []

    def choose_and_keep(word: str, runs: tuple[RemoteRun, ...]) -> RemoteRun | None:
        fitting.extend(runs)
        return choose(word, runs)

    meaning = RunMeaning(choose_and_keep, expected)
    try:
        found = find_in_runs(
            word, hosts, access.open, width=access.width, warn=warn, listed=listed, meaning=meaning
        )
    except (BadInput, HostError, HostsUnusable, RunNotKept) as error:
        fixes = [error.fix] if error.fix else []
        if expected is None and isinstance(error, BadInput) and (near := _find_near(word, records)):
            fixes = [f'did you mean "{near}"? Otherwise {error.fix}']
        if absent := sorted(meant.intersection(error.hosts) - listed.keys() - {LOCALHOST}):
            fixes.append(
                f"where {absent[0]} has a new name or address, list it under {absent[0]} in hosts.yaml"
            )
        kept = expected.run_id if expected and expected.run_id in scope.kept else scope.find_kept(word)
        is_meant = expected is None or kept == expected.run_id
        is_listed = isinstance(error, BadInput) and kept != word and kept in error.message
        if kept and is_meant and not is_listed:  # its host may be gone for good
            fixes.append(f"gpulaunch report {kept} shows what is kept locally")
        error.fix = "; ".join(fixes)
        if isinstance(error, RunNotKept) and kept and (why := _read_refusal(kept)):
            raise RunNotKept(f"{kept} never started: {why}", error.fix) from None
        raise
    _name_meant(word, found, records)
    if other := scope.find_other_live(found, fitting):
        echo(f"another run lives, name it to take it: {run_line(other, time.time())}", err=True)
    return found


def _name_meant(word: str, found: RemoteRun, records: Mapping[str, RunRecord]) -> None:
    """Say which run a word that fits several means, and of `last` where another project has launched it."""
    if word in (LAST, run_name(found.run_id)):
        echo(f"{word} is {run_line(found, time.time())}", err=True)
    if word == LAST and (project := find_other_project(found, local_runs_dir(), records)):
        echo(f"it was launched in {one_line(project)}, not in this directory", err=True)


def _find_near(word: str, run_ids: Iterable[str]) -> str:
    """Return the name of a launch of this machine, or `last`, that a word is a slip of, else ""."""
    near = find_nearest(word, (LAST, *dict.fromkeys(map(run_name, run_ids))))
    return "" if near == word else near


def _read_refusal(run_id: str) -> str:
    """Return why no host of a launch has ever started its part, "" where one has or that is not known."""
    outcome = read_kept_outcome(local_runs_dir() / run_id)
    refused = outcome.get("verdict") == "aborted" and outcome.get("run_dirs") == {}
    return one_line(str(outcome.get("why") or ""), 400) if refused else ""


def _of_job(job: str, _word: str, runs: tuple[RemoteRun, ...]) -> RemoteRun:
    """Return the last run of a Slurm job: its nodes may have those of other jobs, too. Raises BadInput."""
    own = [run for run in runs if run.slurm_job == job]
    if not own:
        raise _no_run(job)
    return own[-1]


def _no_run(job: str) -> BadInput:
    fix = f"see its output, slurm-{job}.out; `scancel {job}` ends the job"
    return BadInput(f"Slurm job {job} has no run of gpulaunch yet", fix)


def warn(text: str) -> None:
    """Report what is not as it should be."""
    echo(text, err=True)


def open_run(
    run: RemoteRun, access: HostAccess, options: FoundRunOptions, *, waits: bool = False
) -> RunAccess:
    """Return the plan of a run and the way to its nodes; see `access_run`.

    `waits`: who follows the run waits for hosts that did not answer just now; others do not ask them again.
    Raises BadInput when no record has the plan.
    """
    hosts = access.nodes or search_hosts(access.inventory, options.hosts)
    entries = {entry.name: entry for entry in hosts}
    person = sys.stdin.isatty() and sys.stderr.isatty()
    consent = confirm if person else None
    known = KnownHosts(entries, access.inventory, partial(is_named, None), consent)
    return access_run(run, known, access.open if waits else partial(open_heard, run.silent, access.open))


def open_named_run(
    run: str, options: FoundRunOptions, *, waits: bool = False
) -> tuple[HostAccess, RemoteRun, RunAccess]:
    """Return how the hosts of RUN are reached, it and its plan; `waits`: for a job of Slurm to start, too."""
    access = reach_run(open_host_access(options), run, options.hosts, waits=waits)
    found = _await_run(access, options) if access.job and waits else find_run(run, access, options)
    return access, found, open_run(found, access, options, waits=waits)


def _await_run(access: HostAccess, options: FoundRunOptions) -> RemoteRun:
    """Return the run of a Slurm job, once it has one. Raises BadInput where the job ends without."""
    pause_s = _LOOK_EVERY_S
    while True:
        try:
            return find_run("", access, options)
        except GpulaunchError as absence:
            with suppress(SlurmError):
                await_job(access.job, lambda _: None)  # of a job that is over this says more
            if not isinstance(absence, BadInput):
                raise
            if pause_s == _LOOK_EVERY_S:
                echo(f"{absence.message}, and it is waited for; {absence.fix}", err=True)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LOOK_AT_LEAST_EVERY_S)  # a job of another program never has one


def list_access_words(access: HostAccess, options: FoundRunOptions) -> tuple[str, ...]:
    """Return the options by which another command about the run finds it as this one has."""
    named = (word for host in options.hosts for word in ("--hosts", shlex.quote(host)))
    return (*access.inventory.access_words, *named)


def name_node(in_record: str, shown: str) -> str:
    """Return how a node is called: as the host that answered is, whatever the record of the run calls it."""
    return shown if shown == in_record else f"{shown} ({one_line(in_record, 80)} in the run's record)"


def choose_nodes(to: RunAccess, host: str) -> list[RunNode]:
    """Return the nodes with the ways to them, or that of one host, by either name. Raises BadInput."""
    both = list(zip(to.plan.nodes, to.entries, strict=True))
    chosen = [pair for pair in both if host in ("", pair[0].host, pair[1].name)]
    if not chosen:
        where = fold_hosts(name_node(node.host, entry.name) for node, entry in both)
        raise BadInput(f"{to.plan.run_id} has no node called {host}", f"it ran on {where}")
    return chosen


def describe_renamed_hosts(to: RunAccess) -> Iterator[str]:
    """Yield a line for each node that the record of the run calls by another name than its host has."""
    for node, entry in zip(to.plan.nodes, to.entries, strict=True):
        if node.host != entry.name:
            yield f"{one_line(node.host, 80)}: the name of {entry.name} in the record and the logs of the run"
