"""Whether ranks are what was planned: their number, their GPUs, their precision, or not verified."""

from typing import Any

import pytest

from launcher.follow.events import HostStarted, RunEvent
from launcher.follow.outcome import Outcome, render_unverified
from launcher.follow.run_state import FAILURE_GRACE_S, RunState, StopHosts
from launcher.report.outcome import render_outcome
from tests.launcher.run_events import CPU, come_to, ended, host_report, placed, replay, stops
from tests.launcher.run_plans import plan


def test_a_world_that_shrank_stops_the_launch_with_4() -> None:
    watch = RunState(plan(CPU, CPU))
    actions = replay(watch, [host_report("a", "rank", rank=0, local_rank=0, world_size=1)])
    assert stops(actions) == [
        StopHosts(("a", "b"), FAILURE_GRACE_S, "not as planned: world size is 1 instead of 2 in rank 0 (a)")
    ]
    replay(watch, [host_report("a", "rank_exit", rank=0, code=-15, stopping=True), ended("a"), ended("b")])
    outcome = come_to(watch)
    assert (outcome.verdict, outcome.exit_code) == ("verification_failed", 4)


def test_a_rank_on_the_wrong_gpu_is_seen() -> None:
    watch = RunState(plan(("GPU-a", "GPU-b")))
    right = placed("a", 0, 2, device="cuda:0", gpu="GPU-a")
    wrong = placed("a", 1, 2, device="cuda:0", gpu="GPU-a")
    assert stops(replay(watch, [right])) == []
    assert "rank 1 (a) opened GPU-a instead of GPU 1 (GPU-b)" in stops(replay(watch, [wrong]))[0].why


def test_a_rank_that_fell_back_to_the_cpu_is_seen() -> None:
    watch = RunState(plan(("GPU-a",)))
    assert "runs on cpu instead of GPU 0" in stops(replay(watch, [placed("a", 0, 1)]))[0].why


@pytest.mark.parametrize(
    ("gpu", "state", "fix"),
    [
        (
            ("GPU-a", "GPU-b"),
            {"world_size": 1, "device": "cpu"},
            "torch sees no GPU in this rank (gpulaunch preflight a",
        ),
        (
            ("GPU-a", "GPU-b"),
            {"device": "cuda:0", "gpu": "GPU-b"},
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
        ),
        (CPU, {"world_size": 1, "device": "cuda:0", "gpu": "GPU-a"}, "leave out --gpus none"),
        (
            CPU,
            {"world_size": 1, "mixed_precision": "fp16"},
            "leave it out of the script, or --precision fp16",
        ),
        (CPU, {"world_size": 3}, "it must leave RANK and WORLD_SIZE as they are"),
        (CPU, {"world_size": 1, "local_rank": 7}, ""),
    ],
)
def test_what_is_not_as_planned_comes_with_what_to_do(
    gpu: tuple[str | None, ...], state: dict[str, Any], fix: str
) -> None:
    watch = RunState(plan(gpu))
    replay(
        watch, [host_report("a", "state", rank=0, **{"world_size": 2, "world_rank": 0, **state}), ended("a")]
    )
    outcome = come_to(watch)
    assert outcome.exit_code == 4
    lines = list(render_outcome(outcome))
    at = [number for number, line in enumerate(lines) if line.startswith("not as planned: ")][-1]
    assert (fix in lines[at + 1]) if fix else not outcome.verification.remedy
    assert lines[at + 1].startswith("  fix: ") is bool(fix)


def plain_torch(watch: RunState, visible: str) -> Outcome:
    """A whole run of a script that uses torch.distributed and nothing more."""
    history: list[RunEvent] = [HostStarted("a", "/r"), HostStarted("b", "/r")]
    for rank, host in enumerate("ab"):
        history += [
            host_report(host, "rank", rank=rank, local_rank=0, world_size=2, visible=visible),
            host_report(host, "state", rank=rank, world_size=2, world_rank=rank, backend="gloo"),
            host_report(host, "rank_exit", rank=rank, code=0),
            host_report(host, "launcher_exit", code=0),
            ended(host),
        ]
    replay(watch, history)
    return come_to(watch)


def test_ranks_that_see_no_gpu_are_on_the_cpu_though_nothing_tells_their_device() -> None:
    outcome = plain_torch(RunState(plan(CPU, CPU)), "")
    assert (
        outcome.verification.devices_verified,
        outcome.verification.unreported_ranks,
        outcome.verification.ranks_without_device,
    ) == (True, (), ())
    assert not [line for line in render_outcome(outcome) if "not verified" in line]


def test_a_gpu_that_nothing_tells_is_said_to_be_not_verified_and_the_world_to_be() -> None:
    outcome = plain_torch(RunState(plan(("GPU-a",), ("GPU-b",))), "GPU-a")
    assert (
        outcome.verification.devices_verified,
        outcome.verification.unreported_ranks,
        outcome.verification.ranks_without_device,
    ) == (False, (), (0, 1))
    (line,) = (line for line in render_outcome(outcome) if "not verified" in line)
    assert line.startswith("world and ranks are as planned; not verified: which GPU ranks 0-1 use")


@pytest.mark.parametrize(
    ("gpu", "visible", "device", "said"),
    [
        (CPU, "", {}, ""),
        (("GPU-a",), "GPU-a", {"device": "cuda:0", "gpu": "GPU-a"}, ""),
        (
            ("GPU-a",),
            "GPU-a",
            {},
            "not verified: whether the script used GPU 0: it never started CUDA through torch",
        ),
    ],
)
def test_a_rank_alone_needs_no_process_group(
    gpu: tuple[str, ...], visible: str, device: dict[str, Any], said: str
) -> None:
    watch = RunState(plan(gpu))
    history: list[RunEvent] = [
        HostStarted("a", "/r"),
        host_report("a", "rank", rank=0, local_rank=0, world_size=1, visible=visible),
        *([host_report("a", "state", rank=0, **device)] if device else []),
        host_report("a", "rank_exit", rank=0, code=0),
        host_report("a", "launcher_exit", code=0),
        ended("a"),
    ]
    replay(watch, history)
    outcome = come_to(watch)
    assert outcome.verification.devices_verified is not bool(said)
    assert list(render_unverified(outcome)) == ([said] if said else [])


def test_another_mixed_precision_is_seen() -> None:
    watch = RunState(plan(CPU, precision="fp16"))
    (stop,) = stops(replay(watch, [placed("a", 0, 1, mixed_precision="bf16")]))
    assert "mixed precision is bf16 instead of fp16 in rank 0 (a)" in stop.why
