"""Optimizer steps counted by the guard, and GPU power while they are made."""

import os
from typing import Any


class StepReader:
    """The last step of each rank; `drawn` is by GPU: the mean power while its rank made steps."""

    def __init__(self, run_dir: str, gpu_of: dict[str, str]) -> None:
        self._run_dir = run_dir
        self._gpu_of = gpu_of
        self._steps: dict[str, int] = {}
        self.drawn: dict[str, float] = {}

    def see(self, line: dict[str, Any]) -> bool:
        """Add each rank's step to a sample; return whether any rank made one since the last sample."""
        stepped = []
        for rank, used in line["ranks"].items():
            step = read_number(os.path.join(self._run_dir, "steps-rank-%s" % rank))
            if step is None:
                continue
            used["step"] = step
            if step != self._steps.get(rank):
                stepped.append(rank)
            self._steps[rank] = step
        for uuid in (self._gpu_of.get(rank, "") for rank in stepped):
            power = (line["gpus"].get(uuid) or {}).get("power_w")
            if power:
                self.drawn[uuid] = power + 0.9 * (self.drawn.get(uuid, power) - power)
        return bool(stepped)


def read_number(path: str) -> int | None:
    """Return the number in a file, None if it has none."""
    try:
        with open(path, "rb") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None
