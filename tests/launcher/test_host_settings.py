"""What hosts.yaml says of a host holds in every command that judges it."""

import random
from dataclasses import replace

import pytest

from launcher.cleanup.clean import CleanOptions, find_leftovers
from launcher.config.inventory import HostEntry
from launcher.host_checks.evaluation import evaluate_facts
from launcher.remote.agent import GatherResult
from launcher.top.fleet import view_host
from launcher.top.holders import find_holders
from launcher.top.host_monitor import HostState
from preflight.checks.runner import PlannedLaunch
from preflight.facts.host import HostFacts
from preflight.job import Expect, Job
from tests.preflight import scenes
from tests.preflight.golden_cases import host


def stopped_facts() -> HostFacts:
    scene = scenes.Scene(random.Random(3), machine=True)
    scene.add(gpus=(0,), state="T", age_s=3600.0)
    return scene.facts()


@pytest.mark.parametrize(("stopped_s", "ended"), [(600.0, 1), (86400.0, 0)])
def test_a_process_that_may_stand_still_so_long_is_no_leftover(stopped_s: float, ended: int) -> None:
    facts, entry = stopped_facts(), HostEntry("h", expect=Expect(stopped_s=stopped_s))
    assert len(find_leftovers(entry, facts, CleanOptions()).list_approved(yes=True)) == ended
    (holder,) = find_holders(facts, entry.expect)[0].processes
    assert (holder.kind is not None and holder.kind.value == "half-dead") is bool(ended)


def test_a_gpu_that_launches_may_not_take_is_not_free() -> None:
    facts = scenes.Scene(random.Random(3), machine=True).facts()
    facts = replace(facts, gpus=tuple(replace(gpu, uuid=f"GPU-{gpu.index}") for gpu in facts.known_gpus))
    known = HostState(
        HostEntry("h", gpus=(0, 1)),
        phase="live",
        facts=facts,
        heard_at=100.0,
        holders=find_holders(facts, Expect()),
    )
    gpus = view_host(known, 101.0).gpus
    assert {gpu.index for gpu in gpus if "hosts.yaml" in gpu.problem} == {gpu.index for gpu in gpus} - {0, 1}
    assert not any(gpu.free for gpu in gpus[2:])


def clock_findings(
    *entries: HostEntry, clocks: dict[str, tuple[float, float]]
) -> dict[tuple[str, tuple[str, ...]], bool]:
    facts = {entry.name: host(name=entry.name) for entry in entries}
    result = evaluate_facts(entries, GatherResult(facts, {}), Job(), clocks=clocks)
    return {(each.code, each.hosts): each.ignored for each in result.findings if each.code == "SYS003"}


def test_findings_about_several_hosts_follow_what_each_host_ignores_and_expects() -> None:
    off = {"a": (60.0, 60.5), "b": (0.0, 0.5), "c": (0.0, 0.5)}
    plain, late = HostEntry("a"), HostEntry("a", expect=Expect(clock_skew_s=120.0))
    others = HostEntry("b"), HostEntry("c")
    assert clock_findings(plain, *others, clocks=off) == {("SYS003", ("a",)): False}
    quiet = replace(plain, ignore=frozenset({"SYS003"}))
    assert clock_findings(quiet, *others, clocks=off) == {("SYS003", ("a",)): True}
    assert clock_findings(*others, late, clocks=off) == {}


def test_gpus_that_launches_may_not_take_are_compared_with_none() -> None:
    facts = host(name="a")
    assert [gpu.index for gpu in PlannedLaunch(allowed={"a": (1,)}).gpus_of(facts, Job(gpus="all"))] == [1]
