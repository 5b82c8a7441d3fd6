"""gpulaunch diagnose: what killed a run, from its log."""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from launcher.commands._answer import json_option
from launcher.commands._completion import complete_logs
from launcher.commands._param_types import logs_option
from launcher.exit_codes import ExitCode
from launcher.follow.failure_diagnosis import diagnose_kept_run, read_kept_failure
from launcher.follow.failures import Failure
from launcher.follow.suggested_commands import read_places, with_run_commands
from launcher.report.diagnosis import encode_diagnosis, render_diagnosis
from launcher.rundir import layout
from launcher.rundir.end_state import summarize_ends
from launcher.rundir.local_runs import find_local_run
from launcher.rundir.log_files import list_run_directories, read_logs
from launcher.rundir.run_id import LAST, is_run_name, run_name
from launcher.sync.left_out_diagnosis import name_left_out
from launcher.terminal.output import echo, echo_json, echo_lines
from launcher.text import one_line
from preflight.diagnosis.result import BENIGN, UNKNOWN, Diagnosis


@click.command("diagnose")
@click.argument("logs", nargs=-1, metavar="[FILE|RUN|-]...", shell_complete=complete_logs)
@json_option
@logs_option("Where `gpulaunch run` kept its logs.", "runs")
def command(logs: tuple[str, ...], *, as_json: bool, runs: Path) -> None:
    """Say what killed a run, how sure that is, the lines that prove it, and what to do.

    FILE is any log or terminal paste, of one rank or many; RUN is a run's name, the start or the last six of
    its id, or `last` (the default); - is stdin. Several are read as one run, put in order by the times they
    carry.
    """
    if not logs and _is_log_piped():
        echo("standard input is not read; gpulaunch diagnose - reads it", err=True)
    logs = logs or (LAST,)
    for word in filter(_means_run, logs):
        found_run = find_local_run(word, runs).name
        if word in (LAST, run_name(found_run)):
            echo(f"{word} is {found_run}", err=True)
    read = read_logs(logs, runs, lambda text: echo(text, err=True))
    kept = list_run_directories(logs, runs)
    alone = kept[0] if len(kept) == len(logs) == 1 else None
    outcome = layout.read_kept_outcome(alone) if alone else {}
    failure = read_kept_failure(outcome)
    end = _read_end(outcome, tuple(layout.read_kept_ends(alone)) if alone else ())
    found = diagnose_kept_run(read, failure)
    if len(kept) == len(logs) or all(map(_means_run, logs)):
        # Two runs may have had different interpreters on one host.
        places = read_places(layout.read_kept_plan(kept[0]), outcome) if len(kept) == 1 else ()
        found = with_run_commands(found, places)
        if places:
            starts = {place.host: place.cwd for place in places}
            found = name_left_out(found, layout.read_kept_source(kept[0]), starts)
    open_ended = [path.name for path in kept if not layout.has_end(path)]
    if as_json:
        keys = ("host", "rank", "code", "summary")
        root = None if failure is None else {key: getattr(failure, key) for key in keys}
        also = {"without_end": open_ended, "end": end, "root_cause": root, "exit_code": int(ExitCode.OK)}
        echo_json({**encode_diagnosis(found, read), **also})
        return
    _echo_end(found, failure, end)
    for name in open_ended:
        echo(
            f"{one_line(name)}: its local logs may be older than its end, which is not kept locally;"
            f" for the rest: gpulaunch fetch {one_line(name)}, and this command again"
        )


def _means_run(word: str) -> bool:
    return not Path(word).exists() and is_run_name(word)


def _echo_end(found: Diagnosis, failure: Failure | None, end: Mapping[str, str] | None) -> None:
    """Print how a run ended where that is kept, and what its logs say of it."""
    verdict, why = (end["verdict"], end["why"]) if end is not None else ("", "")
    is_known = verdict == "finished"  # whatever its ranks have printed
    if failure is not None:
        echo_lines(_failure_lines(failure))
        is_known |= failure.hung
    elif why:  # stopped, a host was lost, the ranks were not as planned
        echo(f"{verdict}: {why}")
        if end is not None and end["fix"]:
            echo(f"  fix: {end['fix']}")
        is_known |= verdict in ("interrupted", "verification_failed")
    says_why = failure is not None or why
    # What a person, or gpulaunch, has stopped ends by its signal: the logs cannot say more of that.
    is_stopped = verdict == "verification_failed" or (verdict == "interrupted" and why != "SIGTERM")
    no_more = {UNKNOWN, "terminated"} if is_stopped else {UNKNOWN}
    said = {found.verdict, *(cause.slug for cause in found.causes)}
    if (says_why and found.verdict == BENIGN) or (is_known and said <= no_more):
        echo("its logs show no failure")
    else:
        echo_lines(render_diagnosis(found))


def _is_log_piped() -> bool:
    """Return whether standard input is a pipe, as in `kubectl logs POD | gpulaunch diagnose`."""
    with contextlib.suppress(OSError):  # closed
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    return False


def _failure_lines(failure: Failure) -> Iterator[str]:
    """Yield what failed first, and of a hung rank where it stood, which its logs do not say."""
    yield f"failed first: {failure.summary}"
    if not failure.hung:
        return
    if failure.location:
        yield f"  at {failure.location} on {one_line(failure.host, 60)}"
    for line in failure.last_lines:
        yield f"  | {line}"


def _read_end(outcome: Mapping[str, Any], ends: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """Return how a kept run ended, None where it is not known. Its text is untrusted.

    `ends` are those of its nodes: a run that no client followed to its end has no outcome.
    """
    verdict, why = outcome.get("verdict"), outcome.get("why") or ""
    if not outcome and ends:
        status, said = summarize_ends(ends)
        verdict, why = ("interrupted", said) if status == "stopped" else (None, "")
    if not isinstance(verdict, str) or not isinstance(why, str):
        return None
    verified = outcome.get("verified") if verdict == "verification_failed" else None
    fix = verified.get("fix") if isinstance(verified, dict) else ""
    fix = one_line(fix, 400) if isinstance(fix, str) else ""
    return {"verdict": one_line(verdict, 40), "why": one_line(why, 400), "fix": fix}
