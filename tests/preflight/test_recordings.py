"""Recorded hosts: what `gpulaunch record` saved with the facts must be said of them again.

The GPUs are the lab's simulated ones, read through the real NVML interface by the real agent.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.finding import Finding
from preflight.checks.runner import check_host
from preflight.decide.gpu_signs import resolve_gpus
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode
from preflight.job import Expect, Job

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))
HEALTHY = ("2xl40s", "8xb200", "8xh100", "h200", "rtx-5090", "t4", "titan-rtx", "4xgh200")


def load(path: Path) -> tuple[HostFacts, list[tuple[str, str, str]]]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return decode(HostFacts, document["facts"]), [tuple(finding) for finding in document["findings"]]


def judged(facts: HostFacts, **job: Any) -> tuple[Finding, ...]:
    return check_host(facts, resolve_gpus(Job(gpus="auto", **job), [facts]), Expect())


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recorded_host_is_judged_as_it_was(path: Path) -> None:
    facts, said = load(path)
    assert [(f.code, f.severity.value, f.subject) for f in judged(facts)] == said


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_host_has_only_the_wrong_torch(name: str) -> None:
    facts, _ = load(next(path for path in RECORDINGS if path.stem == name))
    stopping = {f.code for f in judged(facts) if f.severity.value in ("critical", "unknown")}
    assert stopping == {"ENV003"}  # the lab's torch is a CPU build


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("8xh100-broken", {"GPU003", "HEAL001", "HEAL003", "HEAL004"}),
        ("8xa100-mig", {"GPU005"}),
        ("2xl40s-exclusive", {"MODE002"}),
        ("container", {"PROC002"}),
        ("rtx-2080+gtx-750-ti", {"GPU007"}),
    ],
)
def test_a_sick_or_odd_host_is_told_for_what_it_is(name: str, codes: set[str]) -> None:
    facts, _ = load(next(path for path in RECORDINGS if path.stem == name))
    assert codes <= {finding.code for finding in judged(facts)}


@pytest.mark.parametrize(
    ("name", "requested", "codes"),
    [("titan-rtx", "bf16", True), ("titan-rtx", "fp16", False), ("t4", "bf16", True), ("v100", "bf16", True),
     ("gtx-1660", "fp16", True), ("2xl40s", "bf16", False), ("8xa100-mig", "fp8", True),
     ("h200", "fp8", False)],
)  # fmt: skip
def test_the_asked_precision_is_held_against_recorded_gpus(name: str, requested: str, *, codes: bool) -> None:
    facts, _ = load(next(path for path in RECORDINGS if path.stem == name))
    assert ("PREC001" in {finding.code for finding in judged(facts, precision=requested)}) is codes
