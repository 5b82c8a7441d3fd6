"""gpulaunch report: a run that is kept here, as one HTML file."""

from pathlib import Path

import click

from launcher.logfiles import run_called
from launcher.report.html import html
from launcher.report.rundir import read_run


@click.command("report")
@click.argument("run")
@click.option(
    "--html",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file to write; - is standard output.",
)
@click.option(
    "--logs",
    "runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gpulaunch-runs"),
    show_default=True,
    help="Where `gpulaunch run` kept its logs.",
)
def command(run: str, target: Path, runs: Path) -> None:
    """Write a report of a run: how it ended, its curves, events, ranks, plan, findings and source.

    RUN is a run's id, the beginning of one, or last. One file with everything in it: no network, no script.
    What a detached run has printed since is on its hosts: `gpulaunch fetch RUN` first.
    """
    report = html(read_run(run_called(run, runs)))
    if str(target) == "-":
        click.echo(report)
        return
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_text(report, encoding="utf-8")
    fresh.replace(target)
    click.echo(f"{target}: {len(report.encode()) / 1024:.0f} KiB")
