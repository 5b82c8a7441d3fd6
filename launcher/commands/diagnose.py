"""gpulaunch diagnose: what killed a run, from its log."""

from pathlib import Path

import click

from launcher.exit_codes import ExitCode
from launcher.local.project import RUNS, runs_here
from launcher.report.diagnosis import document, lines
from launcher.rundir.log_files import LAST, read_logs, run_called
from launcher.terminal.output import echo, echo_json, echo_lines
from preflight.diagnosis.diagnose import diagnose_logs


@click.command("diagnose")
@click.argument("logs", nargs=-1, metavar="[FILE|RUN|-]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--logs",
    "runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=runs_here,
    show_default=RUNS,
    help="Where `gpulaunch run` kept its logs.",
)
def command(logs: tuple[str, ...], *, as_json: bool, runs: Path) -> None:
    """Say what killed a run, how sure that is, the lines that prove it, and what to do.

    FILE is any log or terminal paste, of one rank or many; RUN is the first characters of its id, or `last`,
    the default; - is stdin. Several are read as one run, put in order by the times they carry.
    """
    logs = logs or (LAST,)
    if LAST in logs and not Path(LAST).exists():
        echo(f"last is {run_called(LAST, runs).name}", err=True)
    read = read_logs(logs, runs)
    found = diagnose_logs(read)
    if as_json:
        echo_json({**document(found, read), "exit_code": int(ExitCode.OK)})
        return
    echo_lines(lines(found))
    for log in read:
        if log.unread:
            echo(f"{log.name}: {log.unread / 1e6:.0f} MB in its middle were not read")
