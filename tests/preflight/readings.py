"""Scripts as reading them finds them, and the precision that is decided for them."""

from collections.abc import Mapping
from typing import Any

from preflight.decide import precision
from preflight.decide.decision import Decision
from preflight.decide.gpu_assignment import map_ranks
from preflight.facts.host import HostFacts
from preflight.facts.script import CodeLocation, PrecisionSite, ScriptAnalysis
from preflight.job import Job, PrecisionRequest
from tests.hardware import gpu, host


def reading(*sites: PrecisionSite, **changes: Any) -> ScriptAnalysis:
    fields: dict[str, Any] = {"style": "accelerate", "places_device": "", "options": ()}
    return ScriptAnalysis(path="train.py", precision=sites, **(fields | changes))


def literal(value: str, call: str = "Accelerator") -> PrecisionSite:
    return PrecisionSite(CodeLocation("train.py", 12), call, value, binding=True)


BARE = PrecisionSite(CodeLocation("train.py", 12), "Accelerator", "", binding=False)


def decide(hosts: Mapping[str, HostFacts], job: Job, script: ScriptAnalysis | None = None) -> Decision:
    """Return the precision for all ranks that the hosts give."""
    ranks = {name: map_ranks(facts, job, script) for name, facts in hosts.items()}
    return precision.decide_precision(hosts, job, script, ranks)


def on(
    cards: list[str], requested: PrecisionRequest = "auto", script: ScriptAnalysis | None = None
) -> Decision:
    hosts = {f"h{i}": host(f"h{i}", [gpu(0, name, host=f"h{i}")]) for i, name in enumerate(cards)}
    return decide(hosts, Job(precision=requested), script)
