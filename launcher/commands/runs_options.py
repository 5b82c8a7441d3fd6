"""What every command about one run takes: RUN, and where to look for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from launcher.commands.reaching import Reaching, reaching, reaching_options
from launcher.inventory import HostEntry
from launcher.plan import Plan
from launcher.runs.finding import find, hosts_to_ask
from launcher.runs.found import FoundRun
from preflight.errors import BadInput

Function = TypeVar("Function", bound=Callable[..., Any])

LOGS = Path("gpulaunch-runs")


def run_options(function: Function) -> Function:
    """Add RUN, --hosts and how hosts are reached to a command."""
    function = reaching_options(function)
    option = click.option(
        "--hosts",
        multiple=True,
        metavar="WORDS",
        help="Where to look instead of every known host; repeatable.",
    )
    return option(function)


def ways_of(options: dict[str, Any]) -> Reaching:
    """Return how to reach hosts."""
    return reaching(
        options["inventory"],
        accept_new_host_keys=options["accept_new_host_keys"],
        parallel=options["parallel"],
    )


def found_run(word: str, ways: Reaching, options: dict[str, Any]) -> FoundRun:
    """Return the run that a word means. Raises BadInput, or HostError when no host answered."""
    return find(word, hosts_to_ask(ways.inventory, options["hosts"]), ways.open, width=ways.width)


def nodes_of(run: FoundRun, ways: Reaching) -> tuple[Plan, tuple[HostEntry, ...]]:
    """Return the plan of a run and how to reach its nodes: as they have answered, else as hosts.yaml says,
    else as whoever launched the run reached them. Raises BadInput when no record tells the plan.
    """
    if run.launched is None:
        raise BadInput(f"{run.run_id} left no record of its launch", "it was started by another gpulaunch")
    return run.launched.plan, run.entries(ways.inventory.hosts)
