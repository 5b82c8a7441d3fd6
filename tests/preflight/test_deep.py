"""Deep checks judged: over simulated samples with noise the guilty one is named, and nobody else."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from launcher.onhost.deep.circle import ALL_ROUNDS_UP_TO, pair_rounds, partner_of
from launcher.onhost.deep.link_steps import slow_pairs
from preflight.checks.finding import Finding
from preflight.checks.runner import check_deep
from preflight.deep.culprits import find_culprits
from preflight.deep.pairs import judge_pairs
from preflight.deep.peak import peak_gbs, peak_tflops
from preflight.deep.records import DeviceFacts, RankDeep
from preflight.deep.reports import add_reports
from tests.preflight.deep_runs import deep_run

SEEDS = range(50)


def noisy(rng: random.Random, value: float, spread: float, count: int) -> list[float]:
    return [value * (1 + rng.uniform(-spread, spread)) for _ in range(count)]


def simulated(rng: random.Random, hosts: int, gpus: int, faults: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Return what is said of a run in which every value has the usual spread of healthy hardware."""
    overlay: dict[str, Any] = {}
    slow_link, slow_node = faults.get("link"), faults.get("node")
    width = max(1, gpus)
    for rank in range(hosts * width):
        compute = 420.0 if rank == faults.get("compute") else 700.0
        overlay[f"{rank}.matmul.tflops"] = noisy(rng, compute, 0.025, 4)
        overlay[f"{rank}.copy.gbs"] = noisy(rng, 2600.0, 0.02, 3)
        for name in ("to_device", "from_device", "to_device_together", "from_device_together"):
            overlay[f"{rank}.host_copies.{name}"] = noisy(rng, 55.0, 0.05, 3)
        overlay[f"{rank}.node.busbw"] = noisy(rng, 470.0, 0.03, 3)
        if rank == faults.get("digest"):
            overlay[f"{rank}.digest.digests"] = ["aa", f"{rng.getrandbits(32):x}"]
        node = rank // width
        peers = [other * width for other in range(hosts) if other != node] if rank % width == 0 else []
        for at, peer in enumerate(peers):
            pair = {node, peer // width}
            bad = slow_node in pair or pair == set(slow_link or ())
            rate = (15.0 if bad else 45.0) * (1 + rng.uniform(-0.04, 0.04))
            overlay[f"{rank}.pairs.pairs.{at}.gbs"] = rate
    return check_deep(deep_run(hosts=hosts, gpus=gpus, overlay=overlay))


def named(findings: tuple[Finding, ...]) -> set[tuple[str, tuple[str, ...], str]]:
    return {(finding.code, finding.hosts, finding.subject) for finding in findings}


@pytest.mark.parametrize(
    ("faults", "wanted"),
    [
        ({}, set()),
        ({"compute": 5}, {("DEEP002", ("n2",), "gpu1")}),
        ({"digest": 6}, {("DEEP003", ("n3",), "gpu0")}),
        ({"node": 1}, {("DEEP009", ("n1",), "node")}),
        ({"link": (0, 3)}, {("DEEP009", ("n0", "n3"), "link")}),
        (
            {"compute": 0, "digest": 7, "link": (1, 2)},
            {
                ("DEEP002", ("n0",), "gpu0"),
                ("DEEP003", ("n3",), "gpu1"),
                ("DEEP009", ("n1", "n2"), "link"),
            },
        ),
    ],
    ids=["healthy", "slow GPU", "wrong GPU", "slow host", "slow link", "three faults"],
)
def test_what_is_broken_is_named_and_nothing_else(
    faults: Mapping[str, Any], wanted: set[tuple[str, tuple[str, ...], str]]
) -> None:
    for seed in SEEDS:
        assert named(simulated(random.Random(seed), 4, 2, faults)) == wanted, seed


def test_one_gpu_of_two_is_judged_by_the_other() -> None:
    findings = check_deep(deep_run(gpus=2, overlay={"0.matmul.tflops": [400.0] * 20}))
    assert named(findings) == {("DEEP002", ("n0",), "gpu0")}


@pytest.mark.parametrize("nodes", range(3, 11))
def test_slow_nodes_and_links_are_named_in_worlds_of_every_size(nodes: int) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        names = [f"n{at}" for at in range(nodes)]
        slow = set(rng.sample(names, 1 if nodes < 6 else 2)) if seed % 2 else set()
        fast = [name for name in names if name not in slow]
        link = tuple(sorted(rng.sample(fast, 2))) if nodes > 4 and seed % 3 == 0 else ()
        rates = {
            (one, other): (10 if {one, other} & slow or (one, other) == link else 45)
            * rng.uniform(0.95, 1.05)
            for at, one in enumerate(names)
            for other in names[at + 1 :]
        }
        verdict = judge_pairs(rates, 0.85)
        assert (set(verdict.nodes), verdict.links, verdict.unresolved) == (slow, (link,) if link else (), ())


def test_two_nodes_cannot_tell_who_is_slow_and_accuse_nobody() -> None:
    assert judge_pairs({("a", "b"): 1.0}, 0.85).low == ()


def test_pairs_that_seem_slow_are_measured_again_by_both_of_their_ranks() -> None:
    rates = {(0, 1): 9.0, (0, 2): 10.0, (0, 3): 5.0, (1, 2): 10.0, (1, 3): 10.0, (2, 3): 9.5}
    reported: list[dict[int, float]] = [{}, {}, {}, {}]
    for (one, other), rate in rates.items():
        reported[one][other], reported[other][one] = rate, rate + 1
    assert slow_pairs(reported) == [(0, 3)]
    assert slow_pairs(reported[:1]) == [(0, 3)]
    assert slow_pairs([{1: 1.0}, {0: 9.0}]) == []


@pytest.mark.parametrize("count", range(41))
def test_in_rounds_of_pairs_everybody_meets_everybody_once_or_three_others(count: int) -> None:
    rounds = pair_rounds(count)
    pairs = [pair for each in rounds for pair in each]
    assert len(set(pairs)) == len(pairs)
    for each in rounds:
        members = [member for pair in each for member in pair]
        assert len(set(members)) == len(members)
        assert all(partner_of(partner_of(member, each) or 0, each) == member for member in members if member)
    if count <= ALL_ROUNDS_UP_TO:
        assert len(pairs) == count * (count - 1) // 2
    else:
        met = [sum(member in pair for pair in pairs) for member in range(count)]
        assert set(met) <= {2, 3}


@pytest.mark.parametrize(
    ("capability", "model", "sms", "clock", "tflops"),
    [
        ("7.0", "V100", 80, 1530, 125),
        ("7.5", "T4", 40, 1590, 65),
        ("8.0", "A100", 108, 1410, 312),
        ("8.6", "A40", 84, 1740, 150),
        ("8.6", "NVIDIA GeForce RTX 3090", 82, 1695, 71),
        ("8.9", "L4", 58, 2040, 121),
        ("8.9", "NVIDIA GeForce RTX 4090", 128, 2520, 165),
        ("9.0", "H100", 132, 1830, 989),
    ],
)
def test_calculated_peaks_are_those_of_data_sheets(
    capability: str, model: str, sms: int, clock: int, tflops: float
) -> None:
    facts = DeviceFacts("gpu", model, "2.9.0", 0, capability=capability, sms=sms, clock_max_mhz=clock)
    assert peak_tflops(facts) == pytest.approx(tflops, rel=0.02)
    assert peak_gbs(facts) is None


def hung(states: Mapping[int, tuple[tuple[str, ...], str | None, bool]]) -> list[int]:
    """Return who is blamed; a state is the steps begun, the stack (None: silent), and if it waited."""
    overlay: dict[str, Any] = {}
    for rank, (begun, stack, waiting) in states.items():
        overlay[f"{rank}.begun"] = list(begun)
        overlay[f"{rank}.stuck"] = (
            None if stack is None else {"step": begun[-1], "waiting": waiting, "stack": [stack]}
        )
    run = deep_run(gpus=len(states), overlay=overlay, run={"hung": True, "ended": "hung"})
    return [culprit.rank.rank for culprit in find_culprits(run)]


def test_a_hang_is_blamed_on_who_stands_apart() -> None:
    steps = ("join", "memory")
    waits = (steps, "barrier (distributed_c10d.py:4)", True)
    assert hung({0: waits, 1: (("join",), "join (main.py:9)", False), 2: waits}) == [1]  # never began
    assert hung({0: waits, 1: (steps, None, False), 2: waits}) == [1]  # silent
    assert hung({0: waits, 1: waits, 2: (steps, "nap (main.py:7)", False)}) == [2]  # still in its own part
    reduces = (steps, "all_reduce (distributed_c10d.py:9)", False)
    assert hung({0: reduces, 1: (steps, "nap (main.py:7)", False), 2: reduces}) == [1]  # outside of it
    assert hung({0: reduces, 1: reduces, 2: reduces}) == []


def test_a_report_that_does_not_fit_is_a_failed_step() -> None:
    reports: list[dict[str, Any]] = [
        {"kind": "begin", "step": "memory"},
        {"kind": "result", "step": "memory", "bytes": 1, "bad_words": "none", "seconds": 1},
        {"kind": "result", "step": "copy", "gbs": [float("inf")], "bytes": 1},
        {"kind": "result", "step": "matmul", "tflops": [1.0] * 5000, "size": 1, "dtype": "x"},
        {"kind": "result", "step": "rm -rf", "bytes": 1},
        {"kind": 3, "step": ["join"]},
        json.loads('{"kind": "result", "step": "digest", "digests": ["a"], "stable": true}'),
    ]
    rank = add_reports(RankDeep(0, "a"), reports)
    assert set(rank.failed) == {"memory", "copy", "matmul"}
    assert rank.begun == ("memory",)
    assert rank.digest is not None
