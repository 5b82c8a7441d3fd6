"""What every command that talks to hosts takes on its command line, in one place."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import click

from launcher.commands._completion import complete_hosts
from launcher.commands._param_types import DurationParam, Function, LocalPathParam, flag, hosts_option
from launcher.remote.fanout import WIDTH
from launcher.rundir.run_id import LAST, is_run_id
from preflight.errors import BadInput
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The values of what `add_host_options` adds to a command."""

    inventory: Path | None
    accept_new_host_keys: bool
    parallel: int
    identity_file: Path | None


Transport: TypeAlias = Literal["srun", "ssh"]
SRUN: Final = "srun"
SSH: Final = "ssh"

transport_option = click.option(
    "--transport",
    type=click.Choice((SRUN, SSH)),
    help="Inside a Slurm job: take its nodes by srun (default where no hosts are named) or by ssh.",
)


def _inventory_option(*, exists: bool) -> Callable[[Function], Function]:
    return click.option(
        "-i",
        "--inventory",
        type=LocalPathParam(exists=exists, dir_okay=False),
        help="Use this file instead of ./hosts.yaml, that of a parent directory, or the user's own.",
    )


inventory_option = _inventory_option(exists=True)


def add_host_options(function: Function, *, writes: bool = False) -> Function:
    """Add the options that reach hosts to a command; `writes`: it makes the file of --inventory."""
    for option in (
        click.option(
            "--parallel",
            type=click.IntRange(1, 1024),
            default=WIDTH,
            show_default=True,
            metavar="N",
            help="Hosts at once; without it a preflight of 512 hosts or more takes more.",
        ),
        flag(
            "--accept-new-host-keys",
            "Accept and save the keys of hosts that known_hosts does not hold; changed keys never.",
        ),
        click.option(
            "--identity-file",
            type=LocalPathParam(exists=True, dir_okay=False),
            help="The private key to offer first to every host, as ssh's -i.",
        ),
        _inventory_option(exists=not writes),
    ):
        function = option(function)
    return function


LONGEST_AGE_S = 86400.0

max_age_option = click.option(
    "--max-age",
    type=DurationParam(min=0, max=LONGEST_AGE_S),
    help="Reuse what an earlier check read, at most this old, where it cannot have changed since.",
)


def add_hosts_argument(function: Function) -> Function:
    """Add HOSTS to a command, as words and as --hosts: both mean the same, and add up."""

    @wraps(function)
    def command(*, hosts: tuple[str, ...], more_hosts: tuple[str, ...], **options: Any) -> Any:
        words = (*hosts, *more_hosts)
        for word in words:
            if word == LAST or is_run_id(word):
                fix = f"gpulaunch ps --all lists all runs; gpulaunch report {word} shows this one"
                raise BadInput(f"{word} is a run, expected hosts", fix)
            if word.endswith(".py") and Path(word).is_file():
                fix = f"gpulaunch run {word} --dry-run checks the hosts for it"
                raise BadInput(f"{word} is a script, expected hosts", fix)
            if word.endswith((".yaml", ".yml")) and Path(word).is_file():
                fix = f"a list of hosts goes after -i (all -i {word}), a run config after --config"
                raise BadInput(f"{word} is a file, expected hosts", fix)
        return function(hosts=words, **options)

    option = hosts_option("Names, ranges, groups or all, as after the command", "more_hosts")
    argument = click.argument("hosts", nargs=-1, shell_complete=complete_hosts)
    return cast("Function", argument(option(command)))
