"""gpulaunch prune: delete old runs that are over from hosts."""

import time
from typing import Any

import click

from launcher.commands.param_types import Duration
from launcher.commands.reaching import reaching_options
from launcher.commands.removing import may_delete, remove
from launcher.commands.runs_options import ways_of
from launcher.durations import format_duration
from launcher.exit_codes import ExitCode
from launcher.report.runs import run_line
from launcher.runs.finding import hosts_to_ask, search
from launcher.terminal.output import echo


@click.command("prune")
@click.argument("hosts", nargs=-1)
@click.option(
    "--older-than", type=Duration(), default="30d", show_default=True, help="Ended at least this long ago."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@reaching_options
def command(hosts: tuple[str, ...], **options: Any) -> int:
    """Delete the directories of your runs on HOSTS that ended long ago; they are shown first.

    A run that lives on any of its hosts, or whose end is not known, is kept. Exit code 1: a host refused,
    or you said no; 3: a host could not be reached.
    """
    age = float(options["older_than"])
    ways = ways_of(options)
    found = search(hosts_to_ask(ways.inventory, hosts), ways.open, width=ways.width, ended=True, tail=0)
    for name, error in found.errors.items():
        echo(f"{name}: not asked: {error.detail}", err=True)
    for name, run_ids in found.elsewhere.items():
        count = "1 run" if len(run_ids) == 1 else f"{len(run_ids)} runs"
        echo(
            f"{name}: not asked: {count} of it in a home that it shares with a host that was asked", err=True
        )
    now = time.time()
    over = (run for run in found.runs if run.ended is not None and not run.conflict)
    old = [run for run in over if run.ended is not None and now - run.ended >= age]
    for run in old:
        echo(run_line(run, now))
    if not old:
        echo(f"no run ended more than {format_duration(age)} ago")
        return ExitCode.UNREACHABLE if found.errors and hosts else 0
    runs = "this run" if len(old) == 1 else f"these {len(old)} runs"
    if not may_delete(f"Delete the logs and records of {runs} on the hosts?", yes=options["yes"]):
        return ExitCode.NEGATIVE
    return max(remove(old, ways.open), ExitCode.UNREACHABLE if found.errors and hosts else 0)
