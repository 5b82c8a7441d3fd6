"""The control group of a run, loaded from the cgroup.py that the plan put in its run directory."""

import os
import types
from typing import Any, Protocol

CGROUP = "cgroup.py"


class CgroupLike(Protocol):
    """What is called of the class Cgroup in a run's cgroup.py."""

    path: str

    def add(self, pid: int) -> bool:
        """Move a process into the group."""

    def pids(self) -> set[int]:
        """Return every process in the group."""

    def kill(self) -> bool:
        """Kill the whole group at once (SIGKILL)."""

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
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - a file that gpulaunch wrote
    return module


def group_of(run_dir: str, state: dict[str, Any]) -> CgroupLike | None:
    """Return the control group named in a run's state.json, None when it has none."""
    path, run_id = state.get("cgroup"), state.get("run_id")
    module = cgroup_module(run_dir) if path else None
    if module is None or os.path.basename(str(path)) != "%s%s" % (module.PREFIX, run_id):
        return None
    group: CgroupLike = module.Cgroup(path)
    return group
