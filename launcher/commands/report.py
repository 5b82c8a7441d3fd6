"""gpulaunch report: a run that is kept locally, as text, as one HTML file, or as a document for programs."""

from pathlib import Path

import click

from launcher.commands._answer import leave_page
from launcher.commands._param_types import logs_option, page_param
from launcher.commands._run_options import run_argument
from launcher.errors import BadInput
from launcher.exit_codes import ExitCode
from launcher.report.html.page import render_page
from launcher.report.summary import encode_summary, render_summary
from launcher.rundir.layout import read_run
from launcher.rundir.local_runs import find_local_run
from launcher.terminal.output import echo_json, echo_lines, lacks_utf8


@click.command("report")
@run_argument
@click.option(
    "--html", "target", type=page_param, help="Write a page with plots to this file; - is standard output."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with every value.")
@logs_option("Where `gpulaunch run` kept its logs.", "runs")
def command(run: str, target: Path | None, runs: Path, *, as_json: bool) -> None:
    """Report RUN: how it ended, its curves, what its ranks used, and what happened when.

    The page is one file with everything in it: no network, no script. What a detached run has printed since
    is on its hosts: `gpulaunch fetch RUN` first.
    """
    if as_json and str(target) == "-":
        raise BadInput("--html - and --json would both be on standard output", "give --html a file")
    found = read_run(find_local_run(run, runs, takes_logs=False))
    if target is not None:
        leave_page(render_page(found), target)
    if as_json:
        echo_json({**encode_summary(found), "exit_code": int(ExitCode.OK)})
    elif target is None:
        echo_lines(render_summary(found, ascii_only=lacks_utf8()))
