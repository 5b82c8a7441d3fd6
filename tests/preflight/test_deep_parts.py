"""Parts of the judgement of deep checks, each at its boundaries: both sides of every condition."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from preflight.deep.comparison import (
    FMA_PER_CLOCK,
    POWER_BOUND_W,
    VALUES,
    Expectation,
    compute_gbs,
    compute_tflops,
    is_power_bound,
)
from preflight.deep.hung_ranks import find_culprits, find_hung_step, has_reported, takes_part
from preflight.deep.matrix import build_peer_matrices
from preflight.deep.measurements import STEP_CODES, DeviceFacts, Digests, RankDeep, Stuck
from preflight.deep.silent_corruption import judge_digests
from preflight.deep.slow_links import judge_pairs
from tests.preflight.deep_runs import deep_run

GPU = DeviceFacts("gpu", "NVIDIA H100 80GB HBM3", "2.9.0", 0, capability="9.0")
IN_COLLECTIVE = ("all_reduce (torch/distributed/distributed_c10d.py:1)",)
ELSEWHERE = ("read (script.py:1)",)


# --- who hung ---


def stuck(*, waiting: bool, stack: tuple[str, ...] = IN_COLLECTIVE) -> Stuck:
    return Stuck("world", waiting, stack)


@pytest.mark.parametrize(
    ("of_ranks", "blamed", "why"),
    [
        ([stuck(waiting=True), None, stuck(waiting=True)], [1], "reported nothing"),
        ([stuck(waiting=True), stuck(waiting=False), stuck(waiting=True)], [1], "waited for it"),
        ([stuck(waiting=True), stuck(waiting=True, stack=ELSEWHERE), stuck(waiting=True)], [1], "outside"),
        ([stuck(waiting=True), stuck(waiting=False), None], [2], "reported nothing"),
        ([None, None, None], [], ""),
        ([stuck(waiting=False)] * 3, [], ""),
        ([stuck(waiting=True, stack=ELSEWHERE)] * 3, [], ""),
        ([stuck(waiting=True)] * 3, [], ""),
    ],
    ids=["one silent", "one busy", "one apart", "silence first", "silent", "busy", "apart", "all wait"],
)
def test_who_differs_from_the_others_is_to_blame(
    of_ranks: list[Stuck | None], blamed: list[int], why: str
) -> None:
    run = deep_run(hosts=1, gpus=3)
    run = replace(run, ranks=tuple(replace(rank, stuck=of_ranks[rank.rank]) for rank in run.ranks))
    found = find_culprits(run)
    assert [culprit.rank.rank for culprit in found] == blamed
    assert all(why in culprit.why for culprit in found)
    assert all(culprit.step == "pairs" for culprit in found)


def test_who_never_began_the_last_step_comes_before_all_else() -> None:
    run = deep_run(hosts=1, gpus=3)
    short = run.ranks[1].begun[:-1]
    ranks = (replace(run.ranks[0], stuck=None), replace(run.ranks[1], begun=short), run.ranks[2])
    (culprit,) = find_culprits(replace(run, ranks=ranks, stacks={1: ("a", "b", "c", "d")}))
    assert (culprit.rank.rank, culprit.step, culprit.stack) == (1, "pairs", ("a", "b", "c"))
    assert "never began" in culprit.why


@pytest.mark.parametrize(("count", "step"), [(0, "join"), (1, "join"), (2, "memory"), (10, "pairs")])
def test_a_hang_is_in_the_latest_step_of_any_rank(count: int, step: str) -> None:
    run = deep_run(gpus=2)
    ranks = (replace(run.ranks[0], begun=tuple(STEP_CODES)[:count]), replace(run.ranks[1], begun=()))
    assert find_hung_step(replace(run, ranks=ranks)) == step


@pytest.mark.parametrize(
    ("hosts", "gpus", "steps"),
    [
        (1, 1, []),
        (1, 2, ["peer", "node"]),
        (2, 1, ["world", "pairs"]),
        (2, 2, ["peer", "node", "world", "pairs"]),
    ],
)
def test_links_are_measured_where_there_are_others(hosts: int, gpus: int, steps: list[str]) -> None:
    run = deep_run(hosts=hosts, gpus=gpus)
    alone = ["join", "memory", "matmul", "digest", "copy", "host"]
    assert [step for step in STEP_CODES if takes_part(run, step)] == [*alone, *steps]


def test_a_step_is_reported_once_its_result_is_there() -> None:
    (whole, _) = deep_run().ranks
    bare = RankDeep(0, "n0")
    for step in STEP_CODES:
        assert has_reported(whole, step), step
        assert not has_reported(bare, step), step


# --- whose products have other bits ---


def digest(rank: int, *words: str, stable: bool = True, **facts: Any) -> RankDeep:
    return RankDeep(rank, f"n{rank}", facts=replace(GPU, **facts), digest=Digests(words, stable=stable))


def verdict(*ranks: RankDeep) -> tuple[list[int], list[int], list[list[int]]]:
    found = judge_digests(ranks)
    return (
        [rank.rank for rank in found.unstable],
        [rank.rank for rank in found.odd],
        [[rank.rank for rank in group] for group in found.divided],
    )


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([digest(0, "a"), digest(1, "a"), digest(2, "a")], ([], [], [])),
        ([digest(0, "a"), digest(1, "a"), digest(2, "b")], ([], [2], [])),
        ([digest(0, "a"), digest(1, "b")], ([], [], [[0, 1]])),
        ([digest(0, "a"), digest(1, "a"), digest(2, "b"), digest(3, "b")], ([], [], [[0, 1, 2, 3]])),
        ([digest(0, "a"), digest(1, "b"), digest(2, "c")], ([], [], [[0, 1, 2]])),
        ([digest(0, "a"), digest(1, "b", stable=False), digest(2, "a")], ([1], [], [])),
        ([digest(0, "a"), digest(1, "b", torch="2.8.0"), digest(2, "a")], ([], [], [])),
        ([digest(0, "a"), digest(1, "b", model="NVIDIA A100"), digest(2, "a")], ([], [], [])),
        ([digest(0, "a"), digest(1, "b", device="cpu"), digest(2, "b", cuda="13.0")], ([], [], [])),
        ([digest(0, "a"), RankDeep(1, "n1", facts=GPU), digest(2, "a")], ([], [], [])),
        ([digest(0, "a"), replace(digest(1, "b"), facts=None), digest(2, "a")], ([], [], [])),
    ],
    ids=[
        *("all alike", "one odd", "two differ", "two and two", "three ways", "unstable", "another torch"),
        *("another model", "another device", "no digest", "no facts"),
    ],
)
def test_a_majority_of_like_gpus_names_the_odd_one(
    ranks: list[RankDeep], said: tuple[list[int], list[int], list[list[int]]]
) -> None:
    assert verdict(*ranks) == said


# --- what is expected ---


@pytest.mark.parametrize(
    ("watts", "bound"), [(None, True), (70.0, True), (249.9, True), (POWER_BOUND_W, False), (700.0, False)]
)
def test_below_250_w_no_peak_is_expected(watts: float | None, *, bound: bool) -> None:
    assert is_power_bound(replace(GPU, power_limit_w=watts)) is bound
    assert POWER_BOUND_W == 250.0  # L40S 350 W, A40 300 W; L4 72 W, A10 150 W


@pytest.mark.parametrize("gone", [{"sms": None}, {"sms": 0}, {"clock_max_mhz": None}, {"capability": "9.9"}])
def test_without_a_factor_there_is_no_peak(gone: dict[str, Any]) -> None:
    known = replace(GPU, sms=132, clock_max_mhz=1830.0, memory_clock_max_mhz=2619.0, bus_bits=5120)
    assert compute_tflops(known) is not None
    assert compute_tflops(replace(known, **gone)) is None
    assert "9.9" not in FMA_PER_CLOCK
    assert compute_gbs(known) == pytest.approx(3352, rel=0.001)  # an H100's 3.35 TB/s
    assert compute_gbs(replace(known, memory_clock_max_mhz=None)) is None
    assert compute_gbs(replace(known, bus_bits=0)) is None


@pytest.mark.parametrize(
    ("value", "said"), [(49.9, "critical"), (50.0, "warning"), (89.9, "warning"), (90.0, "ok"), (100.0, "ok")]
)
def test_a_value_on_its_floor_is_fine(value: float, said: str) -> None:
    assert Expectation("peers", 100.0, 90.0, 50.0).judge(value) == said


@pytest.mark.parametrize(("name", "takers"), [("allreduce_gbs", [0, 2]), ("world_gbs", [0])])
def test_a_group_has_one_rank_that_speaks_for_it(name: str, takers: list[int]) -> None:
    (value,) = (value for value in VALUES if value.name == name)
    run = deep_run(hosts=2, gpus=2)
    assert [rank.rank for rank in run.ranks if value.samples(rank)] == takers
    assert not any(value.samples(replace(rank, node=None, world=None)) for rank in run.ranks)


ALL = list(itertools.combinations("abcd", 2))


@pytest.mark.parametrize(
    ("slow", "nodes", "links", "unresolved"),
    [
        ({}, (), (), ()),
        ({"ab": 84.9}, (), (("a", "b"),), ()),
        ({"ab": 85.0}, (), (), ()),
        ({"ab": 1.0, "ac": 1.0}, ("a",), (), ()),
        ({"ab": 1.0, "cd": 1.0}, (), (("a", "b"), ("c", "d")), ()),
        ({"ab": 1.0, "ac": 1.0, "ad": 1.0}, ("a",), (), ()),
        ({"ab": 1.0, "ac": 1.0, "ad": 1.0, "bc": 1.0}, ("a",), (("b", "c"),), ()),
    ],
)
def test_a_node_with_most_slow_pairs_is_slow_and_else_the_link(
    slow: dict[str, float], nodes: tuple[str, ...], links: tuple[Any, ...], unresolved: tuple[Any, ...]
) -> None:
    rates = {pair: slow.get("".join(pair), 100.0) for pair in ALL}
    verdict = judge_pairs(rates, 0.85)
    assert (verdict.nodes, verdict.links, verdict.unresolved, verdict.noisy) == (nodes, links, unresolved, ())
    assert verdict.reference == sorted(rates.values())[4]


def test_three_pairs_can_be_compared_and_two_cannot() -> None:
    three = {("a", "b"): 1.0, ("a", "c"): 9.0, ("b", "c"): 9.0}
    assert judge_pairs(three, 0.85).reference == 9.0
    assert judge_pairs(dict(list(three.items())[:2]), 0.85).reference is None


@pytest.mark.parametrize(
    ("repeats", "links", "noisy"),
    [
        ({}, ("ab", "cd"), ()),
        ({"ac": [100.0], "ab": [84.0]}, ("ab", "cd"), ()),
        ({"ac": [100.0], "ab": [85.0]}, (), ("cd",)),
        ({"ac": [100.0, 10.0], "ab": [9.0, 9.0]}, (), ("ab", "cd")),
        ({"ac": [100.0, 10.0], "ab": [9.0, 9.0], "cd": [1.0, 1.0]}, ("cd",), ("ab",)),
        ({"ab": [99.0]}, ("ab", "cd"), ()),
        ({"ac": []}, ("ab", "cd"), ()),
    ],
)
def test_a_suspect_that_was_not_repeated_is_slow_unless_another_was_cleared(
    repeats: dict[str, list[float]], links: tuple[str, ...], noisy: tuple[str, ...]
) -> None:
    rates = {pair: 1.0 if pair in (("a", "b"), ("c", "d")) else 100.0 for pair in ALL}
    verdict = judge_pairs(rates, 0.85, {(each[0], each[1]): values for each, values in repeats.items()})
    assert ["".join(pair) for pair in verdict.links] == list(links)
    assert ["".join(pair) for pair in verdict.noisy] == list(noisy)


# --- matrices ---


@pytest.mark.parametrize(("gpus", "pairs"), [(1, []), (2, [1]), (3, [3])])
def test_two_ranks_of_a_host_are_enough_for_a_matrix(gpus: int, pairs: list[int]) -> None:
    matrices = build_peer_matrices(deep_run(hosts=1, gpus=gpus))
    assert [len(matrix.rates) for matrix in matrices] == pairs
