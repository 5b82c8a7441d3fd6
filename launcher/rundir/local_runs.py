"""The run directory that a word means, of the runs that are kept locally."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from launcher.errors import BadInput
from launcher.rundir.layout import read_kept_plan
from launcher.rundir.run_id import LAST, format_start, is_job_id, names_run, run_name
from launcher.text import name_first

_MOST_NAMES = 5


def find_local_run(word: str, runs: Path, *, takes_logs: bool = True) -> Path:
    """Return the directory of the run that a word means: as `names_run` has it, or by its Slurm job.

    "last" was started last, and so was the run meant of several that have a name, or were of one job.
    `takes_logs`: the command reads a log file in place of a run, too. Raises BadInput.
    """
    if takes_logs and "/" in word:
        raise BadInput(f"{word}: no such log", "name a log file, a run id, or - for stdin")
    kept = sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    if word == LAST and not kept:
        raise BadInput(
            f"no run is kept in {runs}", "gpulaunch fetch RUN brings one; gpulaunch ps --all lists them"
        )
    meant = kept if word == LAST else _of_job(word, kept) or _of_name(word, kept)
    if meant:
        return max(meant, key=_started)
    latest = (
        f"; the latest local run is {max(kept, key=_started).name}, gpulaunch fetch RUN brings another one"
        if kept
        else f"; no run is kept in {runs}: gpulaunch fetch RUN brings one"
    )
    if Path(f"slurm-{word}.out").is_file():
        latest = f"; slurm-{word}.out is the output of that job"
    if not takes_logs:
        fix = (
            f"gpulaunch diagnose {shlex.quote(word)} reads a log"
            if Path(word).is_file()
            else f"name a run{latest}"
        )
        raise BadInput(f"{word}: no such run locally", fix)
    raise BadInput(f"{word}: no such log and no such run", f"name a log file, a run id, or -{latest}")


def _of_job(word: str, kept: Sequence[Path]) -> list[Path]:
    """Return the runs of a Slurm job. Raises BadInput for an array, each task of which has its run."""
    job_by_run = {path: str(read_kept_plan(path).get("slurm_job")) for path in kept if is_job_id(word)}
    of_job = [path for path, job in job_by_run.items() if job == word]
    tasks = sorted({job for job in job_by_run.values() if job.startswith(f"{word}_")})
    if tasks and not of_job:
        raise BadInput(
            f"Slurm job {word} is an array: each task has its run",
            f"name one: {name_first(tasks, _MOST_NAMES)}",
        )
    return of_job


def _of_name(word: str, kept: Sequence[Path]) -> list[Path]:
    """Return the run of an id, all of a name, or the one whose id starts so. Raises BadInput for several."""
    found = [path for path in kept if path.name == word] or [
        path for path in kept if names_run(word, path.name)
    ]
    named = [path for path in found if run_name(path.name) == word]
    if named or len(found) < 2:
        return named or found
    names = ", ".join(path.name for path in found[-_MOST_NAMES:])
    jobs = {run_name(path.name) for path in found}
    newest = f", or {jobs.pop()} for the newest" if len(jobs) == 1 else ""
    raise BadInput(
        f"{word} is ambiguous, it starts the ids of several runs: {names}",
        f"name one of them in full{newest}",
    )


def _started(directory: Path) -> tuple[str, float]:
    """Return when a local run was started, by its id: fetching makes none newer."""
    return format_start(directory.name), directory.stat().st_mtime
