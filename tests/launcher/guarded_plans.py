"""Plans of guarded runs, and the first facts that a guard reports."""

from dataclasses import replace
from typing import Any

from launcher.planning.plan import Plan
from tests.launcher.run_plans import plan

FACTS: dict[str, Any] = {
    "mixed_precision": "fp16",
    "scaler": True,
    "dtypes": {"float32": 4},
    "versions": {"torch": "2.13.0"},
    "gpu": "GPU-0",
}


def guarded(policy: str, *gpus: tuple[str | None, ...]) -> Plan:
    made = plan(*gpus)
    env = {"GPULAUNCH_GUARD": policy}
    return replace(made, nodes=tuple(replace(node, env=env) for node in made.nodes))
