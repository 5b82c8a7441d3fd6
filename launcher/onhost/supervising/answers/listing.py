"""list: what runs of this user are here: those that live or were lost, and the ended on request."""

from __future__ import annotations

import os
import time
from typing import Any

from ..claims import user_name
from ..client import client_silent_s, is_detached
from ..files import last_bytes, read_json
from ..rundir import SPEC, look, runs_dir
from .gpu_use import gpu_use, last_sample, sampled_use

TAIL = 8 << 10  # of rank 0's log, for step and loss
TOLD = (
    "run_id",
    "job",
    "host",
    "node_rank",
    "nodes",
    "first_rank",
    "ranks",
    "world_size",
    "grace_s",
    "gpus",
    "launch",
)


def list_runs(request: dict[str, Any]) -> dict[str, Any]:
    """Return the runs that are asked for, and what their GPUs do where that is asked for."""
    found = wanted_runs(request)
    return {
        "runs": found,
        "user": user_name(os.geteuid()),
        "host": os.uname().nodename,
        "t": time.time(),
        "gpu_use": use_of(found) if request.get("gpu_use") else {},
    }


def wanted_runs(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each run directory says that the request wishes to hear of."""
    base = runs_dir()
    try:
        names = [name for name in os.listdir(base) if not name.startswith(".")]
    except OSError:
        names = []
    found = []
    for name in sorted(names):
        if not name.startswith(str(request.get("prefix", ""))):
            continue
        run = describe_run(os.path.join(base, name), tail=int(request.get("tail", TAIL)))
        if run is not None and (request.get("ended") or run["state"].get("phase") != "ended"):
            found.append(run)
    if request.get("newest"):
        found = sorted(found, key=lambda run: run["state"].get("started") or 0.0)[-1:]
    return found


def describe_run(run_dir: str, *, tail: int) -> dict[str, Any] | None:
    """Return what one run directory says, None when it is none (or goes away just now)."""
    spec = read_json(os.path.join(run_dir, SPEC))
    if spec is None:
        return None
    state, alive = look(run_dir, {})
    return {
        "run_id": os.path.basename(run_dir),
        "spec": {name: spec.get(name) for name in TOLD},
        "state": state,
        "alive": alive,
        "detached": spec.get("grace_s") is None or is_detached(run_dir),
        "client_age_s": client_silent_s(run_dir),
        "tail": last_bytes(os.path.join(run_dir, "rank-%d.log" % (spec.get("first_rank") or 0)), tail),
    }


def use_of(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Put what was measured last into each run; return {GPU UUID: [percent busy, MiB used]}."""
    gpus = {gpu for run in runs if run["alive"] for gpu in run["spec"].get("gpus") or ()}
    use: dict[str, list[float]] = {}
    for run in runs:
        run["usage"] = last_sample(os.path.join(runs_dir(), run["run_id"])) if run["alive"] else None
        use.update(sampled_use(run["usage"] or {}))
    return use if gpus <= set(use) else {**gpu_use(), **use}
