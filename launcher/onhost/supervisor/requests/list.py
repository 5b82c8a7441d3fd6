"""list: this user's runs on this host: the live and the lost ones, and on request the ended ones."""

import contextlib
import os
import time
from typing import Any

from ...event_file import MALFORMED, parse_event
from ..client_files import count_silent_seconds, is_detached
from ..files import read_json, read_tail
from ..gpu_claims import read_user_name
from ..next_start import is_kept, read_next
from ..node import parse_host
from ..protocol import send_header
from ..run_dir import (
    SPEC,
    USAGE,
    describe_stall,
    inspect_run,
    is_of_this_node,
    list_all_places,
    list_own_places,
    list_runs,
)

SAMPLE_BYTES = 65536  # one sample of the largest host is a tenth of it
FRESH_S = 30.0
MAX_NAMED = 50  # runs of one other node
TAIL = 8 << 10  # of rank 0's log, for step and loss
SPEC_KEYS = (
    *("run_id", "job", "host", "node_rank", "nodes", "first_rank", "grace_s", "ranks", "world_size"),
    *("gpus", "launch", "slurm_job", "restart"),
)


def serve(request: dict[str, Any]) -> int:
    """Send the requested runs, and the use of their GPUs if the request includes it."""
    places, prefix = list_own_places(), str(request.get("prefix", ""))
    here = [run_dir for place in places for run_dir in list_runs(place, prefix)]
    described = {run_dir: describe_run(run_dir, tail=int(request.get("tail", TAIL))) for run_dir in here}
    found = [run for run in described.values() if run is not None and is_wanted(run, request)]
    if request.get("newest"):
        found = sorted(found, key=lambda run: run["state"].get("started") or 0.0)[-1:]
    others = [run_dir for run_dir, run in described.items() if run is None and os.path.exists(run_dir)]
    for place in set(list_all_places()) - set(places):
        others += list_runs(place, prefix)[:MAX_NAMED]
    send_header(
        {
            "runs": found,
            "other_hosts": group_by_host(others),
            "user": read_user_name(os.geteuid()),
            "host": os.uname().nodename,
            "t": time.time(),
            "gpu_use": collect_gpu_use(found) if request.get("gpu_use") else {},
        }
    )
    return 0


def is_wanted(run: dict[str, Any], request: dict[str, Any]) -> bool:
    """Return whether the request includes a run."""
    return bool(request.get("ended")) or run["kept"] or run["state"].get("phase") != "ended"


def group_by_host(run_dirs: list[str]) -> dict[str, list[str]]:
    """Return {host: run ids} of other nodes' runs in this home; only those nodes know their state."""
    found: dict[str, list[str]] = {}
    for run_dir in sorted(run_dirs):
        place, run_id = os.path.split(run_dir)
        found.setdefault(parse_host(os.path.basename(place)), []).append(run_id)
    return found


def describe_run(run_dir: str, *, tail: int) -> dict[str, Any] | None:
    """Return the description of a run directory, None when it is another node's or disappears meanwhile."""
    spec = read_json(os.path.join(run_dir, SPEC))
    if spec is None or not is_of_this_node(run_dir):
        return None
    state, alive = inspect_run(run_dir, {})
    following = read_next(run_dir)
    return {
        "run_id": os.path.basename(run_dir),
        "run_dir": run_dir,
        "spec": {name: spec.get(name) for name in SPEC_KEYS},
        "state": state,
        "alive": alive,
        "stall": describe_stall(run_dir, state) if alive else None,
        "next": following,
        "kept": is_kept(following),
        "detached": spec.get("disconnect_timeout_s") is None or is_detached(run_dir),
        "client_age_s": count_silent_seconds(run_dir),
        "tail": read_tail(os.path.join(run_dir, "rank-%d.log" % (spec.get("first_rank") or 0)), tail),
    }


def collect_gpu_use(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Add the last sample to each run; return {GPU UUID: [percent busy, MiB used]}."""
    use: dict[str, list[float]] = {}
    for run in runs:
        run["usage"] = read_last_sample(run["run_dir"]) if run["alive"] else None
        use.update(parse_gpu_use(run["usage"] or {}))
    return use


def read_last_sample(run_dir: str) -> dict[str, Any] | None:
    """Return the gauge's last sample of a run, None when it is too old."""
    for line in reversed(read_tail(os.path.join(run_dir, USAGE), SAMPLE_BYTES).splitlines()):
        sample = parse_event(line)
        with contextlib.suppress(*MALFORMED):
            fresh = abs(time.time() - sample["t"]) < FRESH_S
            return sample if fresh and isinstance(sample.get("gpus"), dict) else None
    return None


def parse_gpu_use(sample: dict[str, Any]) -> dict[str, list[float]]:
    """Return {GPU UUID: [percent busy, MiB used]} of the GPUs whose sample has both."""
    found: dict[str, list[float]] = {}
    for uuid, gpu in (sample.get("gpus") or {}).items():
        with contextlib.suppress(*MALFORMED):
            found[uuid] = [round(float(gpu["busy"])), round(float(gpu["memory_mib"]))]
    return found
