"""What rm and prune share: delete runs on the hosts that hold them, and say how it went."""

from collections.abc import Iterable

from launcher.commands.confirm import confirm
from launcher.errors import GpulaunchError, HostError
from launcher.exit_codes import ExitCode
from launcher.report.text import one_line
from launcher.running.connections import Open
from launcher.runs.finding import forget
from launcher.runs.found import FoundRun
from launcher.runs.stopping import remove_run
from launcher.terminal.output import echo


def may_delete(question: str, *, yes: bool) -> bool:
    """Ask the person, unless --yes has answered; say so when nothing is deleted."""
    if yes or confirm(question):
        return True
    echo("nothing was deleted")
    return False


def remove(runs: Iterable[FoundRun], open_entry: Open) -> int:
    """Delete the runs where they were found; return the exit code."""
    code = 0
    for run in runs:
        entries = [node.entry for node in run.nodes]
        results = remove_run(run.run_id, entries, open_entry)
        for result in results:
            if not isinstance(result, GpulaunchError):
                continue
            code = max(code, ExitCode.UNREACHABLE if isinstance(result, HostError) else ExitCode.NEGATIVE)
            echo(f"{run.run_id}: {one_line(result.message, 300)}", err=True)
        if all(not isinstance(result, GpulaunchError) for result in results):
            if len(run.nodes) >= run.total_nodes:  # else a host that has not answered may still hold it
                forget(run.run_id)
            echo(f"{run.run_id}: removed from {len(entries)} host" + ("" if len(entries) == 1 else "s"))
    return code
