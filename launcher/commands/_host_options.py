"""What every command that talks to hosts takes on its command line, in one place."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from launcher.commands._completion import complete_hosts
from launcher.config.inventory import HostEntry, Inventory, load_inventory
from launcher.remote.fanout import WIDTH
from launcher.remote.shards.access import ShardAccess
from launcher.remote.shards.questions import SharedAnswers
from launcher.terminal.output import ask_secret, ask_visibly, echo
from launcher.transports.base import Confirm, Connection, OpenOptions, Prompt
from launcher.transports.ssh.endpoint import opener_for
from preflight.frozen import dataclass

Function = TypeVar("Function", bound=Callable[..., Any])


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The inventory, and how to open its hosts."""

    inventory: Inventory
    open: Callable[[HostEntry], Connection]
    width: int
    close: Callable[[], None] = _nothing  # what all connections share
    nodes: tuple[HostEntry, ...] = ()  # of the Slurm job that is meant; they take the place of hosts
    shards: ShardAccess | None = None  # for many hosts; None: only this process reaches them


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The values of what `host_access_options` adds to a command."""

    inventory: Path | None
    accept_new_host_keys: bool
    parallel: int


def host_access_options(function: Function) -> Function:
    """Add --inventory, --accept-new-host-keys and --parallel to a command."""
    for option in (
        click.option(
            "--parallel",
            type=click.IntRange(1, 1024),
            default=WIDTH,
            show_default=True,
            help="Hosts at once; a preflight of very many takes more unless this is given.",
        ),
        click.option(
            "--accept-new-host-keys",
            is_flag=True,
            help="Accept and save the keys of hosts that known_hosts does not hold; changed keys never.",
        ),
        click.option(
            "-i",
            "--inventory",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Use this file instead of ./hosts.yaml, that of a parent directory, or the user's own.",
        ),
    ):
        function = option(function)
    return function


def hosts_argument(function: Function) -> Function:
    """Add HOSTS to a command, as words and as --hosts: both mean the same, and add up."""

    @wraps(function)
    def command(*, hosts: tuple[str, ...], more_hosts: tuple[str, ...], **options: Any) -> Any:
        return function(hosts=(*hosts, *more_hosts), **options)

    option = click.option(
        "--hosts",
        "more_hosts",
        multiple=True,
        metavar="WORDS",
        shell_complete=complete_hosts,
        help="Names, ranges, groups or all, as after the command; repeatable.",
    )
    argument = click.argument("hosts", nargs=-1, shell_complete=complete_hosts)
    return cast("Function", argument(option(command)))


def open_host_access(
    asked: HostOptions, *, prompt: Prompt = ask_secret, confirm: Confirm = ask_visibly
) -> HostAccess:
    """Return how to reach hosts; gpulaunch asks for secrets only at a terminal, by `prompt` and `confirm`."""
    loaded = load_inventory(asked.inventory)
    if asked.inventory is None and loaded.path is not None and loaded.path.parts[0] == "..":
        # Found in a parent directory: the user neither named it nor works beside it.
        echo(f"hosts of {loaded.path}", err=True)
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    person = SharedAnswers(prompt, confirm) if asks else SharedAnswers(None, None)
    options = person.options(accept_new_host_keys=asked.accept_new_host_keys)
    width = asked.parallel if _is_given("parallel") else None
    shards = ShardAccess(loaded, person, asked.accept_new_host_keys, width)
    return HostAccess(loaded, opener_for(loaded, options), asked.parallel, shards=shards)


def ask_options(asked: HostOptions) -> OpenOptions:
    """Return what the user allows this time, for a question that is about no host."""
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    person = SharedAnswers(ask_secret, ask_visibly) if asks else SharedAnswers(None, None)
    return person.options(accept_new_host_keys=asked.accept_new_host_keys)


def _is_given(option: str) -> bool:
    """Whether the user has given an option, not its default."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(option) not in (None, ParameterSource.DEFAULT)
