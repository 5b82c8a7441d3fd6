"""What rm and prune share: delete runs on the hosts that hold them, and say how it went."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from launcher.commands._answer import Answer, encode_error, encode_unreachable
from launcher.errors import GpulaunchError, HostError
from launcher.exit_codes import ExitCode
from launcher.launch.signals import outlive_terminal
from launcher.planning.run_record import delete_run_record
from launcher.remote.connection_pool import OpenConnection
from launcher.runs.end_notice import delete_notice
from launcher.runs.remote_run import RemoteRun
from launcher.runs.stop import remove_run
from launcher.text import count_noun, name_first, one_line


def confirm_delete(question: str, answer: Answer, *, yes: bool, fix: str = "use --yes in scripts") -> bool:
    """Ask the person, unless --yes has answered; say so when nothing is deleted."""
    if yes or answer.confirm(question, fix):
        return True
    answer.say("nothing was deleted")
    return False


def remove_runs(
    runs: Iterable[RemoteRun],
    open_entry: OpenConnection,
    answer: Answer,
    others: Mapping[str, HostError] | None = None,
    words: Sequence[str] = (),
) -> int:
    """Delete the runs where they were found; return the exit code.

    `others` are hosts that were not asked, `words` the options that commands in a fix need to reach hosts.
    """
    code = int(ExitCode.UNREACHABLE if others else ExitCode.OK)
    removed = []
    left = deque(runs)
    outlive_terminal()
    answer.needs_output = False  # a full disk is why users prune; what it lacked is an error at the end
    try:
        while left and code != ExitCode.INTERRUPTED:
            run = left.popleft()
            entries = [node.entry for node in run.nodes]
            results = remove_run(run.run_id, entries, open_entry)
            failures = [result if isinstance(result, GpulaunchError) else None for result in results]
            hosts = [
                {"host": entry.name, "removed": failed is None, "error": encode_error(failed, words)}
                for entry, failed in zip(entries, failures, strict=True)
            ]
            removed.append({"run_id": run.run_id, "hosts": hosts})
            for failed in filter(None, failures):
                code = max(code, failed.exit_code if isinstance(failed, HostError) else ExitCode.NEGATIVE)
                answer.say(f"{run.run_id}: {one_line(failed.message, 300)}", err=True)
            if not any(failures):
                if run.is_over:  # else a host that has not answered may still hold it
                    delete_run_record(run.run_id)
                    delete_notice(run.run_id)
                answer.say(f"{run.run_id}: removed from {count_noun(len(entries), 'host')}")
    except KeyboardInterrupt:  # between two runs
        code = ExitCode.INTERRUPTED
    if left:
        answer.say(f"interrupted: {name_first([run.run_id for run in left], 3)} left as before", err=True)
    return answer.finish(code, runs=removed, **encode_unreachable(others or {}, words))
