"""What the options of `run` and `rehearse` ask for."""

import shlex
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launcher.commands._argv import TYPED
from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._host_options import SSH, HostOptions, Transport
from launcher.commands._job_hosts import find_job, reach_job
from launcher.config.command_config import settle_command
from launcher.config.command_python import choose_pythons
from launcher.config.config_overrides import Overrides, TypedKey
from launcher.config.disconnect_options import STEP_TIMEOUT_S
from launcher.config.inventory import HostEntry, resolve_rank_counts
from launcher.config.local_entries import resolve_local_entries
from launcher.config.node_sets import fold_hosts
from launcher.config.restart_options import RestartOptions
from launcher.config.run_config import RunConfig, load_run_config
from launcher.config.script_config import (
    build_config_for_command,
    build_config_for_script,
    choose_code_transfer,
)
from launcher.errors import BadInput, GpulaunchError
from launcher.local.home import abbreviate_home
from launcher.local.user import read_user_name
from launcher.planning.script_file import start_in_tree
from launcher.terminal.output import echo
from launcher.text import name_first
from launcher.transports.ssh.endpoint import build_endpoint
from preflight.frozen import dataclass
from preflight.job import Job

if TYPE_CHECKING:
    from launcher.follow.phases import Stopwatch
    from launcher.slurm.jobs import Allocation
    from launcher.terminal.screen import Screen

_HOMES_OF_MACS = "/Users/"  # no Linux has them
STOP_TIMEOUT_S = 15.0  # on top of the grace: for supervisors to kill, and to write how it ended


@dataclass(frozen=True, slots=True)
class LaunchOptions(HostOptions):
    """The values of what `run` takes; those that `rehearse` does not take have a default."""

    hosts: tuple[str, ...]
    gpus: str
    keys: Mapping[str, TypedKey]
    name: str
    sync: bool
    sets: tuple[str, ...]
    ignore: tuple[str, ...]
    as_json: bool
    plain: bool
    all_ranks: bool
    logs: Path
    transport: Transport | None
    verbose: bool = False
    dry_run: bool = False
    show_secrets: bool = False
    clean: bool = False
    wait: float | None = None  # seconds
    max_age: float | None = None  # seconds
    rehearse: bool = False
    deep: bool = False
    detach: bool = False
    no_restart: bool = False
    launch: int | None = None  # which command of a text of several
    pasted: bool = False  # the words are a command such as `torchrun ... train.py`, not a script


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run config, the hosts that it is for, and how to reach them."""

    config: RunConfig
    entries: tuple[HostEntry, ...]
    access: HostAccess
    spares: tuple[HostEntry, ...] = ()  # for restarts; none of `entries`
    slurm_job: "Allocation | None" = None  # whose nodes `entries` are
    nodes: int = 0  # how many of `entries` the launch takes; 0: all
    others: tuple[HostEntry, ...] = ()  # good ones that it does not take; the first of `spares`
    left_out: Mapping[str, str] = field(default_factory=dict)  # host that was to take part -> why it does not

    @property
    def job(self) -> Job:
        """What the hosts run."""
        return self.config.job


@dataclass(frozen=True, slots=True)
class LaunchSession:
    """One call of `run` or `rehearse`: what was typed, where it is shown, what is measured and held."""

    options: LaunchOptions
    screen: "Screen"
    before: "Stopwatch"  # of what comes before the launch
    queues: ExitStack = field(default_factory=ExitStack)  # its places in them, until it has started


def parse_run_request(config: str | None, extra: tuple[str, ...], options: LaunchOptions) -> RunRequest:
    """Read the run config and the inventory; without a run config, the first word of `extra` is the script.

    Raises ConfigError and BadInput with every mistake in them.
    """
    overrides = _overrides(extra, options)
    run_config = _read_config(config, extra, overrides, options)
    access = open_host_access(options)
    run_config = replace(run_config, job=resolve_rank_counts(run_config.job, access.inventory))
    slurm_job = find_job(options.transport, names_hosts=run_config.names_hosts, detach=options.detach)
    names_nodes = run_config.slurm is not None and not run_config.names_hosts
    if slurm_job is None and config is not None and names_nodes:
        hosts, submit = ", ".join(run_config.hosts), f"gpulaunch submit -c {shlex.quote(config)}"
        echo(f"this launch takes {hosts}; {submit} takes nodes of Slurm", err=True)
    request = _reach_hosts(run_config, access, slurm_job, options)
    if run_config.command is not None:
        named = run_config.names_hosts or slurm_job is not None
        job, entries = settle_command(
            run_config.command, request.job, request.entries, names_hosts=named, nodes=request.nodes
        )
        request = replace(request, config=replace(run_config, job=job), entries=entries)
    _refuse_more_nodes(request, options)
    if request.slurm_job is not None:
        request = _take_nodes(request, request.slurm_job.name, options)
    request = _add_spares(request)
    config_in_tree, every = start_in_tree(request.config, (*request.entries, *request.spares))
    request = _with_hosts(replace(request, config=config_in_tree), every)
    if config is None and request.slurm_job is None:
        every = (*request.entries, *request.spares)
        request = replace(request, config=choose_code_transfer(request.config, every, overrides))
    _warn_of_local_home(request, options.sets)
    return _choose_pythons(request)


def _overrides(extra: tuple[str, ...], options: LaunchOptions) -> Overrides:
    return Overrides(
        key_values=options.sets,
        hosts=options.hosts,
        gpus=options.gpus,
        keys={**options.keys, "restart.max": ("--no-restart", "0")} if options.no_restart else options.keys,
        sync=options.sync,
        launch=options.launch,
        is_plan=options.dry_run,
        extra_args=() if options.pasted else extra,
    )


def _read_config(
    config: str | None, extra: tuple[str, ...], overrides: Overrides, options: LaunchOptions
) -> RunConfig:
    if config is not None:
        found = load_run_config(config, overrides)
    else:
        found = (build_config_for_command if options.pasted else build_config_for_script)(extra, overrides)
    context = click.get_current_context(silent=True)
    typed = () if context is None else context.meta.get(TYPED, ())
    return replace(found, job=replace(found.job, name=options.name or found.job.name, typed=typed))


def _reach_hosts(
    config: RunConfig, access: HostAccess, slurm_job: "Allocation | None", options: LaunchOptions
) -> RunRequest:
    """Return the request with the nodes of the Slurm job that we are in, or the hosts of the config."""
    if slurm_job is None:
        entries = resolve_local_entries(access.resolve(config.hosts), config.job, config.base)
        return RunRequest(config, entries, access, nodes=config.nodes)
    if options.wait is not None:
        raise BadInput("--wait: Slurm has given this job its GPUs already", "leave out --wait")
    linger_s = config.disconnect.stop_s + STOP_TIMEOUT_S
    access, entries = reach_job(
        access, slurm_job, options.transport, config.base, typed=options.hosts, linger_s=linger_s
    )
    if options.transport == SSH:
        return RunRequest(config, entries, access, nodes=config.nodes)
    by_slurm = config.slurm.nodes if config.slurm is not None and config.slurm.spare_nodes else 0
    return RunRequest(config, entries, access, slurm_job=slurm_job, nodes=config.nodes or by_slurm)


def _refuse_more_nodes(request: RunRequest, options: LaunchOptions) -> None:
    """Raise BadInput where the launch is to take more nodes than it has hosts."""
    nodes, entries = request.config.nodes, request.entries
    if nodes > len(entries):
        key = f"--nodes {nodes}" if "nodes" in options.keys else f"{request.config.path}: nodes: {nodes}"
        listed = fold_hosts(entry.name for entry in entries)
        raise BadInput(
            f"{key}: more than the hosts of this launch ({len(entries)}: {listed})",
            "name more hosts with --hosts, or write a smaller number",
        )


def _take_nodes(request: RunRequest, job: str, options: LaunchOptions) -> RunRequest:
    """Return a request in a job's step: further nodes of the job wait for the places of bad ones."""
    config, count = _in_step(request.config, job, options), request.nodes or len(request.entries)
    entries, waiting = request.entries[:count], request.entries[count:]
    if waiting and config.restart is None and not options.no_restart:
        restarted = replace(config.job, restarts=len(waiting))
        config = replace(config, job=restarted, restart=RestartOptions(max=len(waiting)))
    return replace(request, config=config, entries=entries, spares=waiting, nodes=0)


def _add_spares(request: RunRequest) -> RunRequest:
    """Return a request with the spares that the config names."""
    config = request.config
    words = config.restart.spares if config.restart is not None else ()
    found = request.access.resolve(words) if words else ()
    names = {entry.name for entry in request.entries}
    spares = resolve_local_entries(found, request.job, config.base)
    others = tuple(spare for spare in spares if spare.name not in names)
    return replace(request, spares=(*request.spares, *others))


def _warn_of_local_home(request: RunRequest, sets: tuple[str, ...]) -> None:
    """Say where a shell has put the local home in place of `~`, and another user's home was meant."""
    for key, _, value in (text.partition("=") for text in sets):
        if key in ("workdir", "sync.to", "output") and (short := abbreviate_home(value)) != value:
            if not (owners := _list_other_homes(request, value)):
                return
            what = f"{key}: {value} lies in the local home, which {name_first(owners, 3)} may not have"
            echo(f"{what}; theirs: --set {shlex.quote(f'{key}={short}')}", err=True)


def _list_other_homes(request: RunRequest, path: str) -> list[str]:
    """Return who has another home on hosts: users, by ssh_config too, or all hosts for a Mac as client."""
    remote = [each for each in request.entries if not each.is_local]
    users = {each.user or _read_ssh_user(request, each) for each in remote} - {"", read_user_name()}
    return sorted(users) or ([each.name for each in remote] if path.startswith(_HOMES_OF_MACS) else [])


def _read_ssh_user(request: RunRequest, entry: HostEntry) -> str:
    with suppress(GpulaunchError):  # reported when the host is reached
        endpoint = build_endpoint(entry, request.access.inventory)
        return (endpoint.base or endpoint).user
    return ""


def _choose_pythons(request: RunRequest) -> RunRequest:
    """Return a request whose hosts know the Python of a command."""
    if request.config.command is None:
        return request
    every = (*request.entries, *request.spares)
    every, said = choose_pythons(request.config.command, every, request.job.workdir)
    if said:
        echo(said, err=True)
    return _with_hosts(request, every)


def _with_hosts(request: RunRequest, every: tuple[HostEntry, ...]) -> RunRequest:
    count = len(request.entries)
    return replace(request, entries=every[:count], spares=every[count:])


def _in_step(config: RunConfig, job: str, options: LaunchOptions) -> RunConfig:
    """Return what holds in a job's step: nothing outlives it, and its nodes have the directory we are in.

    Raises BadInput for an option that asks for something else.
    """
    sync = config.sync if config.sync is not None and config.sync.to else None
    waits = options.keys.get("disconnect_timeout")
    if waits or options.keys.get("on_disconnect") == ("--on-disconnect", "continue"):
        words = waits[0] if waits else "--on-disconnect continue"
        raise BadInput(f"{words}: a run in a Slurm job ends with the client that follows it", "leave it out")
    if options.sync and sync is None:
        words = "--sync: the nodes of a Slurm job are taken to have this directory"
        raise BadInput(words, "leave it out, or name a directory of theirs with --set sync.to=DIR")
    disconnect = replace(config.disconnect, policy="stop", timeout_s=STEP_TIMEOUT_S, slurm_job=job)
    return replace(config, disconnect=disconnect, sync=sync)
