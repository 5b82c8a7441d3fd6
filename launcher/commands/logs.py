"""gpulaunch logs: what the ranks of a run have printed."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from launcher.commands._answer import Answer, json_option
from launcher.commands._option_rules import forbid_together
from launcher.commands._param_types import flag, host_option
from launcher.commands._run_options import FoundRunOptions, open_named_run, run_argument, run_options
from launcher.config.host_access_args import complete_commands
from launcher.exit_codes import ExitCode
from launcher.runs.access import RunAccess
from launcher.runs.logs import LogSelection, parse_since, show_logs
from launcher.terminal.hangup import has_hung_up
from launcher.terminal.output import echo, write_bytes
from launcher.terminal.screen import Screen


@click.command("logs")
@run_argument
@click.option(
    "--rank", "-r", type=click.IntRange(0), metavar="N", help="Only this rank; into a pipe, its exact bytes."
)
@host_option("Only this node.")
@flag("--follow", "-f", "Follow until the run ends, or until Ctrl-C, after which the run continues.")
@click.option(
    "--since", default="", metavar="AGO|BYTES", help="From 10m, 2h ago, or the last 64kB of each log."
)
@click.option("-n", "--lines", type=click.IntRange(0), metavar="N", help="Only the last N lines of each log.")
@json_option
@run_options
@forbid_together("--json", "--follow", "prints one document")
@forbid_together("--lines", "--since", "chooses where a log starts")
def command(
    run: str,
    *,
    rank: int | None,
    host: str,
    follow: bool,
    since: str,
    lines: int | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Print the logs of RUN. Looking changes nothing for the run.

    Exit code 3: a host of the run could not be read to the end; 5: the disk of the output is full.
    """
    options = FoundRunOptions(**given)
    start = {"lines": lines} if lines is not None else parse_since(since) if since else None
    selection = LogSelection(rank=rank, host=host, since=start, follow=follow)
    access, found, to = open_named_run(run, options, waits=follow)
    if as_json:
        return _document(to, selection, access.inventory.access_words)
    disk_is_full, notify = False, partial(echo, err=True)
    if rank is not None and not sys.stdout.isatty():
        viewed = show_logs(to, selection, lambda _host, _log, data, _now: write_bytes(data), notify)
    else:
        screen = Screen(sys.stdout)
        viewed = show_logs(to, selection, screen.output, notify)
        screen.finish()
        disk_is_full = screen.disk_is_full
    if has_hung_up():  # its signal ended the view before a write could fail
        return ExitCode.TERMINAL_CLOSED
    found = found.with_states(viewed.states)
    if found.is_over:
        echo(f"{found.run_id}: {found.how}", err=True)
    if found.next_words:
        echo(f"{found.run_id}: {found.next_words}", err=True)
    for name, why in viewed.lost.items():
        echo(f"{name}: not read to the end: {why}", err=True)
    if viewed.lost:
        return ExitCode.UNREACHABLE
    return ExitCode.ABORTED if disk_is_full else 0


def _document(to: RunAccess, selection: LogSelection, words: Sequence[str]) -> int:
    """Print every log as text in one document."""
    logs: dict[tuple[str, str], bytearray] = {}

    def keep(host: str, log: str, data: bytes, _now: float) -> None:
        logs.setdefault((host, log), bytearray()).extend(data)

    viewed = show_logs(to, selection, keep)
    answer = Answer("gpulaunch.logs/1", as_json=True)
    return answer.finish(
        ExitCode.UNREACHABLE if viewed.lost else ExitCode.OK,
        run_id=to.plan.run_id,
        logs=[
            {"host": host, "log": log, "text": data.decode("utf-8", "replace")}
            for (host, log), data in sorted(logs.items())
        ],
        unreachable=dict(viewed.lost),
        unreachable_fixes={host: complete_commands(fix, words) for host, fix in viewed.fixes.items() if fix},
    )
