"""gpulaunch logs: what the ranks of a run have printed."""

import sys
from typing import Any

import click

from launcher.commands.runs_options import access, found_run, run_options, ways_of
from launcher.exit_codes import ExitCode
from launcher.runs.view import Selection, read_since, show_logs
from launcher.terminal.output import echo, write_bytes
from launcher.terminal.screen import Screen


@click.command("logs")
@click.argument("run")
@click.option("--rank", "-r", type=click.IntRange(0), help="Only this rank; into a pipe, its exact bytes.")
@click.option("--host", default="", help="Only this node.")
@click.option(
    "--follow", "-f", is_flag=True, help="Go on until the run ends, or Ctrl-C; the run goes on then."
)
@click.option(
    "--since", default="", metavar="AGO|BYTES", help="From 10m, 2h ago, or the last 64kB of each log."
)
@run_options
def command(run: str, **options: Any) -> int:
    """Print the logs of RUN: a unique beginning of its id, or `last`. Looking changes nothing for the run.

    Exit code 3: a host of the run could not be read to the end.
    """
    selection = Selection(
        rank=options["rank"],
        host=options["host"],
        since=read_since(options["since"]) if options["since"] else None,
        follow=options["follow"],
    )
    ways = ways_of(options)
    found = found_run(run, ways, options)
    to = access(found, ways, options)
    if options["rank"] is not None and not sys.stdout.isatty():
        viewed = show_logs(to.plan, to.entries, to.open, selection, _raw)
    else:
        screen = Screen(sys.stdout)
        viewed = show_logs(to.plan, to.entries, to.open, selection, screen.output)
        screen.finish()
    found = found.later(viewed.states)
    if found.is_over:
        echo(f"{found.run_id}: {found.how}", err=True)
    for host, why in viewed.lost.items():
        echo(f"{host}: not read to the end: {why}", err=True)
    return ExitCode.UNREACHABLE if viewed.lost else 0


def _raw(host: str, log: str, data: bytes, now: float) -> None:
    """Write a log's bytes as they are."""
    del host, log, now
    write_bytes(data)
