"""Runs of the deep checks as they would be measured: healthy ones, with dotted keys replaced."""

import copy
from typing import Any

from preflight.deep.measurements import DeepRun
from preflight.facts.json_codec import decode


def deep_run(
    *, hosts: int = 1, gpus: int = 2, overlay: dict[str, Any] | None = None, run: dict[str, Any] | None = None
) -> DeepRun:
    """Return a healthy run of `gpus` H100 on each host (0: a CPU rank each).

    `overlay` replaces values of ranks: {"3.matmul.tflops": [..]}; `run` those of the run itself.
    """
    width = max(1, gpus)
    world = hosts * width
    ranks = [
        _rank(rank, f"n{rank // width}", rank % width, gpus, [each for each in range(world) if each != rank])
        for rank in range(world)
    ]
    for rank in ranks:
        rank["peer"]["pairs"] = [
            each for each in rank["peer"]["pairs"] if each["peer"] // width == rank["rank"] // width
        ]
        rank["pairs"]["pairs"] = [
            each
            for each in rank["pairs"]["pairs"]
            if each["peer"] // width != rank["rank"] // width
            and each["peer"] % width == rank["rank"] % width == 0
        ]
    for dotted, value in (overlay or {}).items():
        number, *path, last = dotted.split(".")
        target: Any = ranks[int(number)]
        for key in path:
            target = target[int(key)] if isinstance(target, list) else target[key]
        target[int(last) if isinstance(target, list) else last] = value
    return decode(DeepRun, {"ranks": ranks, "run_id": "deep-1", **(run or {})})


def _rank(rank: int, host: str, local: int, gpus: int, others: list[int]) -> dict[str, Any]:
    transfer = {"gbs": 45.0, "latency_us": 20.0, "correct": True, "access": True}
    pairs = [{"peer": other, **transfer} for other in others]
    reduction = {
        "busbw": [470.0] * 5,
        "latency_us": [30.0],
        "correct": True,
        "members": gpus,
        "bytes": 1 << 30,
    }
    copies = {
        name: [55.0, 55.2]
        for name in ("to_device", "from_device", "to_device_together", "from_device_together")
    }
    steps = ["join", "memory", "matmul", "digest", "copy", "host", "peer", "node", "world", "pairs"]
    return copy.deepcopy(
        {
            "rank": rank,
            "host": host,
            "gpu": local if gpus else None,
            "local_rank": local,
            "facts": _facts(rank, host, gpus),
            "memory": {"bytes": 60 << 30, "bad_words": 0, "seconds": 1.5},
            "matmul": {"tflops": [700.0] * 20, "size": 8192, "dtype": "bfloat16"},
            "digest": {"digests": ["aa", "bb"], "stable": True},
            "copy": {"gbs": [2600.0] * 5, "bytes": 1 << 30},
            "host_copies": copies,
            "peer": {"pairs": pairs},
            "node": reduction,
            "world": {**reduction, "busbw": [40.0] * 5},
            "pairs": {"pairs": pairs},
            "begun": steps,
            "done": True,
        }
    )


def _facts(rank: int, host: str, gpus: int) -> dict[str, Any]:
    base = {"torch": "2.9.0", "node": int(host[1:])}
    if not gpus:
        return {**base, "device": "cpu", "model": "EPYC", "capability": "AVX2"}
    return {
        **base,
        "device": "gpu",
        "model": "NVIDIA H100 80GB HBM3",
        "uuid": f"GPU-{rank:04d}",
        "capability": "9.0",
        "cuda": "12.8",
        "sms": 132,
        "clock_max_mhz": 1830,
        "memory_clock_max_mhz": 2619,
        "bus_bits": 5120,
        "power_limit_w": 700.0,
    }
