"""Deep checks judged: over simulated samples with noise the guilty one is named, and nobody else."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from launcher.onhost.deep.schedule import (
    ALL_ROUNDS_UP_TO,
    MOST_SUSPECTS,
    MOST_WITNESSES,
    find_partner,
    pair_rounds,
    select_slow_pairs,
)
from preflight.checks.finding import Finding
from preflight.checks.runner import check_deep
from preflight.deep.comparison import compute_gbs, compute_tflops
from preflight.deep.hung_ranks import find_culprits
from preflight.deep.measurements import DeviceFacts, RankDeep, add_reports
from preflight.deep.slow_links import PairVerdict, judge_pairs
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
            {("DEEP002", ("n0",), "gpu0"), ("DEEP003", ("n3",), "gpu1"), ("DEEP009", ("n1", "n2"), "link")},
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
    assert judge_pairs({("a", "b"): 1.0}, 0.85) == PairVerdict(None)


def test_slow_pairs_are_repeated_with_the_fastest_pairs_of_their_nodes() -> None:
    rates = {(0, 1): 9.0, (0, 2): 10.0, (0, 3): 5.0, (1, 2): 10.0, (1, 3): 10.0, (2, 3): 9.5}
    assert select_slow_pairs(rates, 0.85) == [(0, 3), (0, 2), (1, 3)]
    assert select_slow_pairs(rates, 0.4) == []
    assert select_slow_pairs({(0, 1): 1.0, (0, 2): 9.0}, 0.85) == []
    alone = {(0, 1): 1.0, (0, 2): 1.0, (0, 3): 1.0, (1, 2): 9.0, (1, 3): 8.0, (2, 3): 9.0}
    assert set(select_slow_pairs(alone, 0.85)) == {(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)}
    many = {(one, other): 1.0 + (one + other) % 2 * 9 for one in range(16) for other in range(one + 1, 16)}
    assert len(select_slow_pairs(many, 0.85)) <= MOST_SUSPECTS + MOST_WITNESSES


SUSPECT, WITNESSES = ("n0", "n3"), (("n0", "n1"), ("n2", "n3"))


@pytest.mark.parametrize(
    ("suspect", "witness", "links", "noisy"),
    [
        ((5.0, 5.2, 4.9), (45.0, 44.0, 46.0), (SUSPECT,), ()),
        ((5.0, 40.0, 4.9), (45.0, 44.0, 46.0), (), (SUSPECT,)),  # slow at times
        ((12.0, 13.0, 12.0), (45.0, 14.0, 46.0), (), (SUSPECT,)),  # so are those it is compared with
        ((44.0, 5.0, 45.0), (45.0, 44.0, 46.0), (), ()),  # disturbed twice by others
        ((), (45.0, 44.0, 46.0), (SUSPECT,), ()),  # was not repeated
    ],
    ids=["always slow", "unsteady", "unsteady witness", "fast", "not repeated"],
)
def test_a_pair_is_slow_only_if_every_repetition_is(
    suspect: tuple[float, ...],
    witness: tuple[float, ...],
    links: tuple[tuple[str, str], ...],
    noisy: tuple[tuple[str, str], ...],
) -> None:
    names = [f"n{at}" for at in range(4)]
    rates = {(one, other): 45.0 for at, one in enumerate(names) for other in names[at + 1 :]}
    repeats = {SUSPECT: suspect, **dict.fromkeys(WITNESSES, witness)}
    verdict = judge_pairs({**rates, SUSPECT: 5.0}, 0.85, repeats)
    assert (verdict.links, verdict.noisy, verdict.nodes) == (links, noisy, ())


def test_pairs_that_are_slow_at_times_are_unknown() -> None:
    overlay: dict[str, Any] = {}
    for one, other in ((0, 1), (1, 0)):
        transfers = [
            {"peer": other, "gbs": rate, "latency_us": 20.0, "correct": True, "repeat": at}
            for at, rate in enumerate((9.0, 9.0, 45.0, 9.0))
        ]
        rest = [
            {"peer": peer, "gbs": 45.0, "latency_us": 20.0, "correct": True, "repeat": at}
            for peer in (2, 3)
            for at in range(4)
        ]
        overlay[f"{one}.pairs.pairs"] = transfers + rest
    found = check_deep(deep_run(hosts=4, gpus=1, overlay=overlay))
    assert [(each.code, each.hosts, each.severity.value) for each in found] == [
        ("DEEP009", ("n0", "n1"), "unknown")
    ]
    assert "slow in some repetitions" in found[0].message


@pytest.mark.parametrize(
    ("waits", "severity", "words"),
    [
        ({}, "critical", "that its peers in this run reach"),
        ({"waited": 0.97, "throttled": 0.0}, "unknown", "since other processes ran, for 97% of the time"),
        ({"waited": 0.2, "throttled": 0.7}, "critical", "control group held it back for 70% of the time"),
    ],
    ids=["slow", "busy", "quota"],
)
def test_a_cpu_rank_whose_host_is_busy_with_others_is_not_blamed(
    waits: dict[str, float], severity: str, words: str
) -> None:
    overlay = {"1.matmul.tflops": [0.02] * 4, "1.waits": {"matmul": waits}}
    overlay |= {f"{rank}.matmul.tflops": [0.06] * 4 for rank in (0, 2, 3)}
    (found,) = check_deep(deep_run(hosts=4, gpus=0, overlay=overlay))
    assert (found.code, found.hosts, found.severity.value) == ("DEEP002", ("n1",), severity)
    assert words in found.message


@pytest.mark.parametrize("count", range(41))
def test_in_rounds_of_pairs_everybody_meets_everybody_once_or_three_others(count: int) -> None:
    rounds = pair_rounds(count)
    pairs = [pair for each in rounds for pair in each]
    assert len(set(pairs)) == len(pairs)
    for each in rounds:
        members = [member for pair in each for member in pair]
        assert len(set(members)) == len(members)
        assert all(
            find_partner(find_partner(member, each) or 0, each) == member for member in members if member
        )
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
        ("12.0", "NVIDIA GeForce RTX 5090", 170, 2407, 209),
    ],
)
def test_calculated_peaks_are_those_of_data_sheets(
    capability: str, model: str, sms: int, clock: int, tflops: float
) -> None:
    facts = DeviceFacts("gpu", model, "2.9.0", 0, capability=capability, sms=sms, clock_max_mhz=clock)
    assert compute_tflops(facts) == pytest.approx(tflops, rel=0.02)
    assert compute_gbs(facts) is None


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
    assert hung({0: reduces}) == [0]  # there is no other


def test_a_rank_in_the_barrier_of_the_step_before_is_not_blamed_beside_a_stopped_one() -> None:
    overlay: dict[str, Any] = {"0.begun": ["join", "memory"], "1.begun": ["join"], "2.begun": ["join"]}
    run = deep_run(gpus=3, overlay=overlay, run={"hung": True, "ended": "hung"})
    run = replace(run, stacks={2: ("barrier (distributed_c10d.py:5356)",)})
    (culprit,) = find_culprits(run)
    assert (culprit.rank.rank, culprit.step) == (1, "memory")


def test_a_run_that_idles_before_a_deadline_is_judged_by_its_stacks() -> None:
    begun = {f"{rank}.begun": ["join"] for rank in range(3)}
    ended = {"hung": True, "ended": "hung: no output for 125 s"}
    assert find_culprits(deep_run(gpus=3, overlay=begun, run=ended)) == ()
    outliers = {"outliers": [2], "outliers_why": "rank 2 is stopped, while ranks 0, 1 wait in barrier"}
    (culprit,) = find_culprits(deep_run(gpus=3, overlay=begun, run={**ended, **outliers}))
    assert (culprit.rank.rank, culprit.step) == (2, "join")
    assert "is stopped" in culprit.why


@pytest.mark.parametrize(
    ("state", "waits_in", "words"),
    [("T", "do_signal_stop", "is stopped"), ("D", "folio_wait", "state D, in the kernel's folio_wait")],
)
def test_a_rank_that_cannot_report_is_named_by_its_state(state: str, waits_in: str, words: str) -> None:
    silent = {"step": "memory", "state": state, "waits_in": waits_in}
    overlay = {"0.begun": ["join", "memory"], "0.memory": None, "0.silent": silent}
    run = deep_run(gpus=1, overlay=overlay, run={"hung": True, "ended": "hung"})
    (culprit,) = find_culprits(run)
    assert culprit.rank.rank == 0
    assert words in culprit.why


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
