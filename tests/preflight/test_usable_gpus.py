"""Which GPUs of a host a job gets: those that it names, out of those that the site allows."""

from typing import Any

import pytest

from preflight.decide.usable_gpus import GpuSelection, explain_busy, explain_unusable, select_gpus
from preflight.facts.gpu import ComputeProcess
from preflight.facts.missing import Missing
from preflight.job import CommandRequest, GpuRequest, Job
from tests.hardware import gpu, host

FOUR = [gpu(index) for index in (2, 0, 3, 1)]  # no promise of a driver that the first comes first


def chosen(request: GpuRequest, allowed: GpuRequest = "all") -> tuple[list[int], int, tuple[int | str, ...]]:
    found = select_gpus(host(gpus=FOUR), Job(gpus=request), allowed)
    return sorted(found.candidates), found.needed, found.not_found


@pytest.mark.parametrize(
    ("request_", "allowed", "expected"),
    [
        ("all", "all", ([0, 1, 2, 3], 4, ())),
        (2, "all", ([0, 1, 2, 3], 2, ())),  # any two of the four
        ("all", 2, ([0, 1], 2, ())),  # the site gives the first ones by index
        (3, 2, ([0, 1], 3, ())),  # more than the site gives: needed stays what was asked
        ((1, 3), "all", ([1, 3], 2, ())),
        (("1", "GPU-titan-3"), "all", ([1, 3], 2, ())),
        (("GPU-titan-", 7, "GPU-other"), "all", ([0, 1, 2, 3], 4, (7, "GPU-other"))),
        ((0, 1), (1, 2), ([1], 1, (0,))),  # what the site keeps is absent for the job
        ("all", (1, 9), ([1], 1, (9,))),
        ((2,), (1, 9), ([], 0, (9, 2))),
        ((3, ""), "all", ([3], 1, ("",))),  # an empty word names nothing
        ("none", "all", ([], 0, ())),
        ("all", "none", ([], 0, ())),
    ],
)
def test_a_job_gets_what_it_names_out_of_what_is_allowed(
    request_: GpuRequest, allowed: GpuRequest, expected: tuple[list[int], int, tuple[int | str, ...]]
) -> None:
    assert chosen(request_, allowed) == expected


def test_a_gpu_in_prohibited_mode_is_set_aside_while_others_remain() -> None:
    kept = [gpu(0), gpu(1, compute_mode="prohibited")]
    assert select_gpus(host(gpus=kept), Job()) == GpuSelection(frozenset({0}), 1)
    assert select_gpus(host(gpus=kept), Job(gpus=(1,))) == GpuSelection(frozenset({1}), 1)  # named, so wanted


def test_gpus_that_are_all_prohibited_are_candidates_so_that_their_check_refuses_them() -> None:
    kept = [gpu(index, compute_mode="prohibited") for index in (0, 1)]
    assert select_gpus(host(gpus=kept), Job()) == GpuSelection(frozenset({0, 1}), 2)


def test_of_gpus_that_cannot_be_read_none_is_chosen() -> None:
    assert select_gpus(host(gpus=Missing("no driver", "no-library")), Job()) == GpuSelection(frozenset(), 0)


def test_a_gpu_without_a_uuid_is_named_by_its_index_alone() -> None:
    nameless = [gpu(0, uuid=Missing("denied", "no-permission")), gpu(1)]
    found = select_gpus(host(gpus=nameless), Job(gpus=(0, "GPU-titan-0")))
    assert (found.candidates, found.not_found) == (frozenset({0}), ("GPU-titan-0",))


@pytest.mark.parametrize(("gpus", "needed"), [("all", 1), ("auto", 1), (3, 3)])
def test_a_command_that_takes_what_is_free_needs_one_gpu(gpus: GpuRequest, needed: int) -> None:
    job = Job(gpus=gpus, command=CommandRequest(ranks_per_host=4))
    assert select_gpus(host(gpus=FOUR), job).needed == needed
    none_left = CommandRequest(ranks_per_host=4, exclude_gpus={host().host: (0, 1, 2, 3)})
    assert select_gpus(host(gpus=FOUR), Job(command=none_left)).needed == 0


NO_UUID = Missing("denied", "no-permission")
LOST = Missing("GPU is lost", "gpu-lost")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"uuid": NO_UUID}, "has no readable UUID (denied)"),
        ({"memory": LOST}, "GPU is lost"),
        ({"capability": Missing("GPU requires reset", "reset-required")}, "GPU requires reset"),
        (
            {"memory": NO_UUID, "recovery_action": NO_UUID, "compute_mode": NO_UUID, "mig_enabled": NO_UUID},
            "",
        ),
        ({"recovery_action": "gpu_reset"}, "needs recovery: gpu reset"),
        ({"recovery_action": "drain_p2p"}, ""),  # it still computes
        ({"compute_mode": "prohibited"}, "is in Prohibited compute mode, which refuses every process"),
        ({"compute_mode": "exclusive_process"}, ""),
        ({"mig_enabled": True}, "is split by MIG: NCCL cannot join slices of it"),
    ],
)
def test_what_rules_a_gpu_out_is_what_is_known_to(changes: dict[str, Any], reason: str) -> None:
    assert explain_unusable(gpu(0, **changes)) == reason


def test_a_gpu_is_held_by_what_computes_on_it() -> None:
    screen = ComputeProcess(7, "graphics", 1, "Xorg")
    ranks = [ComputeProcess(pid, "compute", 1, "python") for pid in (8, 9)]
    assert explain_busy(gpu(0, processes=(screen, *ranks))) == "is held by pid 8, 9"
    assert [explain_busy(gpu(0, processes=each)) for each in ((screen,), (), NO_UUID)] == ["", "", ""]
