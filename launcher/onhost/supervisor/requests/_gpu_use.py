"""Current use of GPUs: the run's latest gauge sample, which is cheaper than a query to the driver."""

import contextlib
import os
import time
from typing import Any

from preflight.probes.commands import run_command

from ...event_reader import MALFORMED, parse_event
from ..files import read_tail
from ..run_dir import USAGE

SAMPLE_BYTES = 65536  # one sample of the largest host is a tenth of it
FRESH_S = 30.0
SMI = ["nvidia-smi", "--query-gpu=uuid,utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
SMI_S = 5.0


def last_sample(run_dir: str) -> dict[str, Any] | None:
    """Return the gauge's last sample of a run, None when it is too old."""
    for line in reversed(read_tail(os.path.join(run_dir, USAGE), SAMPLE_BYTES).splitlines()):
        sample = parse_event(line)
        with contextlib.suppress(*MALFORMED):
            fresh = abs(time.time() - sample["t"]) < FRESH_S
            return sample if fresh and isinstance(sample.get("gpus"), dict) else None
    return None


def sampled_use(sample: dict[str, Any]) -> dict[str, list[float]]:
    """Return {GPU UUID: [percent busy, MiB used]} of the GPUs whose sample has both."""
    found: dict[str, list[float]] = {}
    for uuid, gpu in (sample.get("gpus") or {}).items():
        with contextlib.suppress(*MALFORMED):
            found[uuid] = [round(float(gpu["busy"])), round(float(gpu["memory_mib"]))]
    return found


def gpu_use() -> dict[str, list[float]]:
    """Return {GPU UUID: [percent busy, MiB used]} from nvidia-smi; empty if it reports none."""
    found: dict[str, list[float]] = {}
    with contextlib.suppress(OSError):
        for line in run_command(SMI, SMI_S).text.splitlines():
            with contextlib.suppress(ValueError):
                uuid, percent, memory = (word.strip() for word in line.split(","))
                found[uuid] = [int(percent), int(memory)]
    return found
