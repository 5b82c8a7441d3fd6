"""The environment of what a run starts."""

import os
from typing import Iterable

from .processes import mark_of, read_start_ticks


def drop_variables(env: dict[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the environment without these names and PREFIX* patterns."""
    patterns = set(patterns)
    names = {pattern for pattern in patterns if not pattern.endswith("*")}
    starts = tuple(pattern[:-1] for pattern in patterns - names)
    return {name: value for name, value in env.items() if name not in names and not name.startswith(starts)}


def run_markers(run_id: str, run_dir: str) -> dict[str, str]:
    """Return the variables that identify the run's processes."""
    me = mark_of(os.getpid(), read_start_ticks(os.getpid()))
    return {"GPULAUNCH_RUN_ID": run_id, "GPULAUNCH_RUN_DIR": run_dir, "GPULAUNCH_SUPERVISOR": me}
