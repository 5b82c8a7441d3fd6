"""Live runs of this host that do what a new one does: the same command in the same directory.

GPUs have claims; a run on the CPU, or on other GPUs, that is typed twice would write over its own files.
"""

import os
from typing import Any

from ..files import read_json
from ..run_dir import SPEC, inspect_run, own_places, runs_in

MOST_READ = 100  # the newest ones, by the time in their names
_REHEARSAL = "GPULAUNCH_REHEARSE"


def list_same_work(spec: dict[str, Any]) -> list[str]:
    """Return the ids of live runs of this host that were given the same work."""
    work = _work_of(spec)
    if work is None:
        return []
    found = [path for place in own_places() for path in runs_in(place)]
    newest = sorted(found, key=lambda path: os.path.basename(path).split("-")[-3:])[-MOST_READ:]
    return [os.path.basename(path) for path in newest if _is_same(path, spec["run_id"], work)]


def _is_same(path: str, own_id: str, work: tuple[Any, ...]) -> bool:
    if os.path.basename(path) == own_id:
        return False
    state, alive = inspect_run(path, {})
    if not alive or state.get("phase") == "ended":
        return False
    return _work_of(read_json(os.path.join(path, SPEC)) or {}) == work


def _work_of(spec: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the command of a run's ranks with its directory, None for one that writes elsewhere.

    A rehearsal does, and tasks of a job array differ by their variables.
    """
    argv = [str(word) for word in spec.get("argv") or ()]
    at = next((at for at, word in enumerate(argv) if word.endswith("/rank.py")), None)
    if at is None or spec.get("slurm_job") or _REHEARSAL in (spec.get("env") or ()):
        return None
    return (spec.get("cwd"), (spec.get("launch") or {}).get("output"), *argv[at + 1 :])
