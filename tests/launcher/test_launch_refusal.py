"""What a launch that findings stop says to do."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.config.inventory import HostEntry
from launcher.engines.base import ENGINES
from launcher.host_checks.evaluation import evaluate_facts, name_others
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import LaunchRequest
from launcher.remote.agent import GatherResult
from launcher.remote.connection_pool import ConnectionPool
from launcher.transports.base import Connection
from preflight.checks.finding import Severity
from preflight.job import Job
from tests.preflight.golden_cases import all_cases, host


def open_nothing(entry: HostEntry) -> Connection:
    raise AssertionError(entry.name)


IN_SPITE = "do what the findings say, or launch in spite of that with --ignore"
BUSY = next(case for case in all_cases() if str(case) == "PROC005/bad").data["facts"]
CLEAN = "gpulaunch clean-zombies a ends what dead runs left"
ORPHAN = next(case for case in all_cases() if str(case) == "PROC001/bad").data["facts"]
OTHER_CLAIM = {**BUSY["claims"][0], "gpu_uuid": "GPU-00000000-0000-0000-0000-000000000000"}
WAIT = "add --wait 2h: the run starts once the GPUs are free"
NO_USE = "do what the findings say; --ignore does not help, no ranks can be placed"


@pytest.mark.parametrize(
    ("overlay", "job", "said"),
    [
        ({"python.packages": {}}, Job(), IN_SPITE),
        ({}, Job(gpus=(17,)), NO_USE),
        ({"python.packages": {}}, Job(gpus=64), NO_USE),
        (ORPHAN, Job(), f"{CLEAN}, or --gpus 1 takes free ones alone, or {WAIT}"),
        (ORPHAN, Job(gpus=(0,)), f"{CLEAN}, or {WAIT}"),
        (BUSY, Job(), f"--gpus 1 takes free ones alone, or {WAIT}"),
        (BUSY, Job(gpus=(1,)), WAIT),
        ({"claims": [*BUSY["claims"], OTHER_CLAIM]}, Job(), WAIT),
    ],
)
def test_ignore_is_offered_only_where_a_launch_is_possible(
    overlay: dict[str, Any], job: Job, said: str
) -> None:
    entry = HostEntry("a")
    result = evaluate_facts([entry], GatherResult({"a": host(overlay, "a")}, {}), job)
    refusal = CheckedLaunch(
        LaunchRequest((entry,), job, ConnectionPool(open_nothing)), result, None
    ).refusal()
    assert refusal is not None
    assert refusal.fix.startswith(said)
    assert "claims" not in overlay or "--ignore" not in refusal.fix  # the host would refuse it


def test_the_hosts_that_nothing_stops_are_named() -> None:
    entries = [HostEntry(name) for name in ("n3", "n1")]
    facts = {"n3": host({}, "n3"), "n1": host({"python.packages": {}}, "n1")}
    result = evaluate_facts(entries, GatherResult(facts, {}), Job(gpus="none"))
    assert result.would_use is not None
    assert (result.would_use.world_size, result.would_use.fix) == (2, "without n1: --hosts n3")
    request = LaunchRequest(tuple(entries), Job(), ConnectionPool(open_nothing))
    refusal = CheckedLaunch(request, result, None).refusal()
    assert refusal is not None
    assert "do what the findings say, or without n1: --hosts n3" in refusal.fix


@pytest.mark.parametrize(
    ("names", "good"),
    [
        ("n1 n2 n3 bad", "'n[1-3]'"),
        ("n2 n1 n3 bad", "'n2,n[1,3]'"),  # the main host stays the first
        ("b bad a n1 n2", "'b,a,n[1-2]'"),
        ("ada@10.0.0.7 bad", "ada@10.0.0.7"),
        ("bad", ""),
    ],
)
def test_the_other_hosts_are_a_range_that_keeps_the_main_host(names: str, good: str) -> None:
    entries = [HostEntry(name) for name in names.split()]
    assert name_others(entries, {"bad"}) == (f"without bad: --hosts {good}" if good else "")


JAX = "import jax\nprint(jax.devices())\n"
TORCH = "import torch\nprint(torch.ones(1))\n"


@pytest.mark.parametrize(
    ("text", "job", "refused"),
    [
        (JAX, Job(gpus=1), set()),
        (TORCH, Job(gpus=1), {"ENV002"}),
        (JAX, Job(gpus=2), {"ENV002"}),  # torch's launcher starts several
        (
            JAX,
            Job(gpus=(17,)),
            {"GPU001", "GPU002"},
        ),  # it is refused, and how many ranks there would be is not known
        (JAX, Job(gpus=1, engine=ENGINES["torchrun"].traits), {"ENV002"}),
    ],
)
def test_one_rank_of_a_script_without_torch_needs_none(text: str, job: Job, refused: set[str]) -> None:
    bare = {"python.packages": {}, "script.text": text}
    facts = {"a": host(bare, "a")}
    result = evaluate_facts([HostEntry("a")], GatherResult(facts, {}), replace(job, script="train.py"))
    assert {each.code for each in result.findings if each.severity is Severity.CRITICAL} == refused


def test_a_torch_that_no_script_uses_is_held_against_no_gpu() -> None:
    cpu_build = {"python.torch_cuda": "cpu", "script.text": JAX}
    facts = {"a": host(cpu_build, "a")}
    result = evaluate_facts([HostEntry("a")], GatherResult(facts, {}), Job(script="train.py"))
    assert not [each for each in result.findings if each.severity is Severity.CRITICAL]
