"""`on_end:` of a run: its command runs once, by the client of the run or by a later one that sees the end."""

from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from launcher.commands._host_access import HostAccess
from launcher.config.inventory import HostEntry
from launcher.config.run_config import RunConfig
from launcher.errors import GpulaunchError
from launcher.runs.end_notice import EndNotice, HeldNotice, list_due_runs
from launcher.terminal.output import echo
from preflight.errors import BadInput


def create_notice(config: RunConfig, logs: Path) -> HeldNotice | None:
    """Return the notice that a run is to keep from its start, None where its config has no `on_end:`."""
    if config.on_end is None:
        return None
    return HeldNotice(EndNotice(config.on_end.words, str(Path.cwd()), str(logs.absolute())))


def deliver_notice(held: HeldNotice, document: Mapping[str, Any]) -> str:
    """Run the command with how the run has ended; return why it failed in one line, "" when it did not."""
    from launcher.transports.on_end_command import run_end_command  # noqa: PLC0415 - few runs have an `on_end:`

    held.settle()
    return run_end_command(held.notice.words, document, cwd=held.notice.cwd)


def deliver_for(run_ids: Collection[str], document: Mapping[str, Any]) -> None:
    """Run the command that one of these starts of a run still owes, as its end has just been followed."""
    for run_id in run_ids:
        held = HeldNotice.take(run_id)
        if held is not None:
            with closing(held):
                _report(run_id, deliver_notice(held, document), document)


def deliver_due(access: HostAccess, entries: Collection[HostEntry], live: Collection[str] = ()) -> None:
    """Run the commands of runs that have ended on these hosts while no client followed them.

    `live` are runs that are known to live. A run whose end cannot be read now is left to a later command.
    """
    due = list_due_runs()
    if not due:
        return
    from launcher.commands._missed_end import find_last_start, read_end  # noqa: PLC0415 - most commands owe nothing

    for run_id in due:
        held = None if run_id in live else HeldNotice.take(run_id)
        if held is None:
            continue
        with closing(held), suppress(GpulaunchError, BadInput):
            starts = (run_id, *reversed(held.notice.earlier))
            found = (find_last_start(each, access, entries) for each in starts)
            run = next((each for each in found if each is not None), None)
            if run is None:
                held.settle()
                echo(f"{run_id} is no longer on its hosts; its on_end is not run", err=True)
            elif run.is_over and not run.is_live:
                document = read_end(run, access, entries, Path(held.notice.logs))
                _report(run_id, deliver_notice(held, document), document)


def _report(run_id: str, failed: str, document: Mapping[str, Any]) -> None:
    words = f"{run_id} has ended: {document['verdict']}; its on_end was run now"
    echo(f"{run_id}: {failed}" if failed else words, err=True)
