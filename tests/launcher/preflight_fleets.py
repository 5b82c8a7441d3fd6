"""Preflights of many hosts with one of each trouble, from recordings; no host is asked."""

import copy
import functools
import json
from pathlib import Path
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import HostError, NameNotResolved
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.result import PreflightResult
from launcher.remote.agent import GatherResult
from launcher.remote.reachability import MOST_HOSTS
from preflight.facts.host import HostFacts, Reach
from preflight.facts.json_codec import decode, encode
from preflight.job import Job

_RECORDINGS = Path(__file__).parents[1] / "preflight/recordings"
_ORPHANS = (12, 13)
_LATE, _UNREAD, _LOST, _BROKEN = 21, 22, 30, 7


def fleet(size: int = 40, *, evil: str = "") -> PreflightResult:
    """Return the preflight of hosts with 8 GPUs each; `evil` is in every text that a host may choose."""
    names = [f"h100-{number:02}{evil}" for number in range(1, size + 1)]
    facts = {name: _facts(name, place, evil) for place, name in enumerate(names, 1) if place != _LOST}
    errors: dict[str, HostError] = {}
    if size >= _LOST:
        lost = names[_LOST - 1]
        errors[lost] = NameNotResolved(lost, f"{lost} does not resolve: no such name{evil}", "Check the name")
    main, *others = facts
    to_main = [_reach(name, main, port, names, evil) for name in others for port in (29500, 43210)]
    pairs = [_reach(one, to, 50000, names, evil) for one in facts for to in others if one != to]
    reach = (*to_main, *(pairs if size <= MOST_HOSTS else ()))
    entries = [HostEntry(name) for name in names]
    return evaluate_facts(entries, GatherResult(facts, errors), Job(), reach=reach)


def _reach(name: str, to: str, port: int, names: list[str], evil: str) -> Reach:
    place = names.index(name)
    refused = port != 29500 and (place + 1 == _LATE or to in names[_LATE - 1 : _LATE])
    error = f"timed out after 3 s{evil}" if refused else ""
    return Reach(name, to, "192.0.2.10", port, ok=not refused, error=error, ms=0.2 + place % 7 / 20)


@functools.cache
def _recorded(name: str) -> str:
    facts = decode(HostFacts, json.loads((_RECORDINGS / f"{name}.json").read_text())["facts"])
    return json.dumps(encode(facts))


def _facts(name: str, place: int, evil: str) -> HostFacts:
    facts: dict[str, Any] = json.loads(_recorded("8xh100-broken" if place == _BROKEN else "8xh100"))
    facts["host"] = name
    facts["python"]["packages"]["torch"] = f"2.9.1+cu126{evil}"
    facts["python"]["torch_cuda"] = "12.6"
    facts["limits"] |= {"cpus": 96, "load_1min": 3.0}
    facts["identity"] |= {
        "hostname": name, "kernel": f"6.8.0-60-generic{evil}", "user": "ada", "uid": 1000, "container": "",
        "initial_pid_namespace": True, "now_unix": 1763800000.0,
    }  # fmt: skip
    for gpu in facts["gpus"]:
        if isinstance(gpu["uuid"], str):
            gpu["uuid"] = f"GPU-{place:04}-{gpu['index']}"
        if isinstance(gpu["name"], str):
            gpu["name"] += evil
    if place in _ORPHANS:
        _hold(facts, evil)
    if place == _LATE:
        facts["driver"]["version"] = "535.183.01"
        facts["identity"]["kernel"] = "5.15.0-122-generic"
    if place == _UNREAD:
        facts["processes"] = {"missing": f"gave up after 10 s{evil}", "code": "timeout"}
    return decode(HostFacts, facts)


def _hold(facts: dict[str, Any], evil: str) -> None:
    """Let the ranks of a dead run hold all GPUs."""
    unread = {"missing": "not read", "code": "error"}
    init = {
        "pid": 1, "start_ticks": 1, "ppid": 0, "uid": 0, "user": "root", "state": "S",
        "comm": "systemd", "argv": ["/sbin/init"], "age_s": 864000.0, "threads": 1, "tty": False,
        "environ": unread, "gpu_files": unread, "wchan": unread, "cpu_ticks": 1,
        "namespace_pids": [1],
    }  # fmt: skip
    rows = [init]
    for gpu in facts["gpus"]:
        index = gpu["index"]
        pid = 4200 + index
        rank = copy.deepcopy(init) | {
            "pid": pid, "start_ticks": pid, "ppid": 1, "uid": 1000, "user": "ada",
            "comm": "python", "argv": ["python", f"train.py{evil}"], "age_s": 7200.0, "threads": 8,
            "environ": {"TORCHELASTIC_RUN_ID": "none", "LOCAL_RANK": str(index), "RANK": str(index)},
            "gpu_files": [f"/dev/nvidia{index}", "/dev/nvidiactl"], "cpu_ticks": 900, "namespace_pids": [pid],
        }  # fmt: skip
        rows.append(rank)
        held = 51_000 + 900 * index
        gpu["processes"] = [{"pid": pid, "kind": "compute", "used_mib": held, "name": "python"}]
        gpu["memory"] |= {"used_mib": held, "free_mib": gpu["memory"]["total_mib"] - held}
    facts["processes"] |= {"processes": rows}


def deep_document(size: int = 16, *, evil: str = "") -> dict[str, Any]:
    """Return what the deep checks of hosts with 8 GPUs measured: one slow GPU, one slow node."""
    hosts = [f"h100-{number:02}{evil}" for number in range(1, size // 8 + 1)]
    values, ranks = [], []
    for rank in range(size):
        host, gpu = hosts[rank // 8], rank % 8
        rate = 610.0 if rank == 5 else 700.0 + rank % 5
        samples = [rate - 4 + (rank * 7 + number * 3) % 9 for number in range(20)]
        values.append(
            {
                "code": "DEEP002", "name": "gemm_tflops", "label": f"matrix products{evil}", "rank": rank,
                "host": host, "gpu": gpu, "value": rate, "unit": f"TFLOPS{evil}", "samples": samples,
                "expected": 702.0, "expected_from": f"peers{evil}", "floor": 653.0,
                "verdict": "warning" if rank == 5 else "ok",
            }
        )  # fmt: skip
        ranks.append({"rank": rank, "host": host, "gpu": gpu})
    members = [*hosts, f"spare{evil}"]
    pairs = [
        {"between": [one, other], "gbs": 6.5 if members[-1] in (one, other) else 41.5, "latency_us": 9.5}
        for at, one in enumerate(members)
        for other in members[at + 1 :]
    ]
    matrix = {
        "title": f"node pairs{evil}", "members": members, "pairs": pairs, "reference_gbs": 41.5,
        "slow_members": [members[-1]], "slow_links": [], "slow_unresolved": [],
    }  # fmt: skip
    unmeasured = [{"host": f"l40s-09{evil}", "gpu": 3, "why": f"held by another run{evil}", "fix": ""}]
    return {
        "schema": "gpulaunch.deep/1", "run_id": "deep", "seconds": 63.0, "ended": f"as planned{evil}",
        "ranks": ranks, "values": values, "matrices": [matrix], "unmeasured": unmeasured, "findings": [],
    }  # fmt: skip
