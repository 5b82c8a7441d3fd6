"""The control group of a run, by cgroup.py as it lies in the run directory: that of the plan's gpulaunch."""

from __future__ import annotations

import os
import types
from typing import Any, Protocol

CGROUP = "cgroup.py"


class CgroupLike(Protocol):
    """cgroup.Cgroup."""

    path: str

    def add(self, pid: int) -> bool:
        """Put a process there."""

    def pids(self) -> set[int]:
        """Return every process that is there."""

    def kill(self) -> bool:
        """SIGKILL all of it at once."""

    def remove(self) -> bool:
        """Remove it."""


def cgroup_module(run_dir: str) -> Any:
    """Return the run's cgroup.py as a module, None when it does not exist."""
    path = os.path.join(run_dir, CGROUP)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError:
        return None
    module = types.ModuleType(CGROUP.partition(".")[0])
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - put there by ourselves
    return module


def group_of(run_dir: str, state: dict[str, Any]) -> CgroupLike | None:
    """Return the control group of a run as its state.json names it, None when there is none."""
    path, run_id = state.get("cgroup"), state.get("run_id")
    module = cgroup_module(run_dir) if path else None
    if module is None or os.path.basename(str(path)) != "%s%s" % (module.PREFIX, run_id):
        return None
    group: CgroupLike = module.Cgroup(path)
    return group
