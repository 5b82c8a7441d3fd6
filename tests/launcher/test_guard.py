"""The guard beside real trainings: it sees what it must, changes nothing, harms nothing when it breaks."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.remote.program_source import read_program_source

pytestmark = pytest.mark.train

HERE = Path(__file__).parent
STOPPED = 86


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Every scenario of guard_trainings, run once, each in a process of its own, with what travels."""
    folder = tmp_path_factory.mktemp("guarded")
    guard = folder / "guard.py"
    guard.write_bytes(read_program_source("guard"))
    # One thread by the environment: after torch.set_num_threads, threads of a fork make a pool each, at once.
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.launcher.guard_trainings", str(guard)],
        cwd=HERE.parents[1],
        capture_output=True,
        env={**os.environ, **one_thread, "TMPDIR": str(folder)},
        timeout=270,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def reports(result: dict[str, Any]) -> list[tuple[str, bool, int]]:
    return [
        (each["code"], each["stops"], each["step"]) for each in result["events"] if each["event"] == "guard"
    ]


def failures(result: dict[str, Any]) -> list[str]:
    return [each["what"] for each in result["events"] if each["event"] == "internal_error"]


def test_every_number_is_the_same_with_and_without_the_guard(seen: dict[str, Any]) -> None:
    unguarded = seen["many_kinds, unguarded"]["value"]
    assert len(unguarded) == 17
    assert seen["many_kinds"]["value"] == unguarded
    assert reports(seen["many_kinds"]) == []
    assert failures(seen["many_kinds"]) == []


def test_two_ranks_compute_the_same_with_ddp_no_sync_sharded_state_and_both_fsdps(
    seen: dict[str, Any],
) -> None:
    one, other = seen["in_two_ranks, unguarded"]["value"]
    assert set(one) == set(other) == {"no_sync", "sharded_state", "fsdp1", "fsdp2", "fsdp2_in_bf16"}
    assert seen["in_two_ranks"]["value"] == [one, other]
    assert reports(seen["in_two_ranks"]) == []
    assert failures(seen["in_two_ranks"]) == []
    first_looks = [each for each in seen["in_two_ranks"]["events"] if each["event"] == "guard_facts"]
    assert len(first_looks) == 2, "both ranks were guarded"


def test_nan_in_one_ranks_shard_is_found_without_the_other_rank(seen: dict[str, Any]) -> None:
    result = seen["spoiled_shard"]
    assert result["value"] == STOPPED
    (stop,) = [each for each in result["events"] if each["event"] == "guard" and each["stops"]]
    assert stop["code"] == "G4"
    assert stop["parameters"] == ["0.weight", "0.bias"], "of the others this rank holds nothing"


def test_a_skipped_step_is_seen_by_accelerate_as_without_the_guard(seen: dict[str, Any]) -> None:
    skipped, _ = seen["many_kinds"]["value"]["accelerate skips"]
    assert skipped == [False, False, True, True, False, False]


def test_a_parameter_that_raises_when_asked_for_its_dtype_ends_that_look_only(seen: dict[str, Any]) -> None:
    assert seen["dtype_raises"]["value"] == seen["dtype_said"]["value"]
    assert failures(seen["dtype_raises"]) == [
        "the guard's attempt to judge dtypes",
        "the guard's attempt to compare dtypes",
    ]


def test_a_guard_that_crashes_everywhere_changes_nothing_and_says_so_once(seen: dict[str, Any]) -> None:
    assert seen["broken_guard"]["value"] == seen["many_kinds, unguarded"]["value"]
    what = failures(seen["broken_guard"])
    assert len(what) == len(set(what)) == 12


@pytest.mark.parametrize("name", ["half_under_a_scaler", "half_and_fused", "pure_half_adam"])
def test_half_trainables_are_stopped_before_their_first_step(seen: dict[str, Any], name: str) -> None:
    assert reports(seen[name]) == [("G1", True, 1)]
    assert seen[name]["code"] == STOPPED
    stop = next(each for each in seen[name]["events"] if each["event"] == "guard")
    assert stop["parameters"] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_the_policy_warn_tells_and_trains_on(seen: dict[str, Any]) -> None:
    result = seen["pure_half_adam with warn"]
    assert result["code"] == 0
    assert [(code, stops) for code, stops, _ in reports(result)][:2] == [("G1", False), ("G4", False)]


@pytest.mark.parametrize(
    "name", ["sharded_scaler", "pure_half_sgd", "pure_bf16", "never_finite", "frozen_after_nan_once"]
)
def test_what_can_train_is_not_stopped(seen: dict[str, Any], name: str) -> None:
    assert seen[name]["code"] == 0
    assert not any(stops for _, stops, _ in reports(seen[name]))


def test_nan_between_two_samples_is_found_at_the_first_bad_step(seen: dict[str, Any]) -> None:
    result = seen["weights_spoiled_at_30"]
    assert reports(result)[-1] == ("G4", True, 31)
    message = result["events"][-1]["message"]
    assert "finite after step 25" in message
    assert "gradients, loss at step 31" in message


def test_values_that_arrive_late_are_judged_when_they_have_arrived(seen: dict[str, Any]) -> None:
    result = seen["read_late"]
    assert result["code"] == STOPPED
    # Sampled at step 50 and read later; the stop names the bad sample, and the last good one.
    assert [each for each in reports(result) if each[1]] == [("G4", True, 50)]
    stop = next(each for each in result["events"] if each.get("stops"))
    assert "finite after step 25" in stop["message"]
    assert failures(result) == []


@pytest.mark.parametrize("name", ["always_overflows", "always_overflows_fused"])
def test_eight_skipped_steps_in_a_row_stop(seen: dict[str, Any], name: str) -> None:
    assert reports(seen[name]) == [("G5", True, 4)]
    assert seen[name]["code"] == STOPPED


def test_adapters_without_gradient_stop_and_one_unused_parameter_warns(seen: dict[str, Any]) -> None:
    assert reports(seen["dead_adapters"]) == [("G9", True, 2)]
    assert reports(seen["one_unused"]) == [("G9", False, 1)]
    assert seen["one_unused"]["code"] == 0


def test_a_cast_under_fused_adam_is_stopped_before_its_own_error(seen: dict[str, Any]) -> None:
    assert reports(seen["cast_with_fused_adam"]) == [("G3", True, 3)]
    assert seen["cast_with_fused_adam"]["code"] == STOPPED
    unwarned = seen["cast_with_fused_adam with warn"]
    assert reports(unwarned) == [("G3", False, 3)]
    assert "found Float" in unwarned["value"], "and it would have failed"


@pytest.mark.parametrize(
    ("name", "stops"), [("pure_half_rmsprop", True), ("pure_half_radam", False), ("pure_half_sgd", False)]
)
def test_pure_fp16_is_stopped_where_the_first_step_divides_by_zero(
    seen: dict[str, Any], name: str, *, stops: bool
) -> None:
    code, stopped, step = reports(seen[name])[0]
    assert (code, stopped, step) == ("G1", stops, 1)
    # What it says comes true: with the policy "warn" the weights are lost in step 1, or they are not.
    lost = [each for each in reports(seen[f"{name} with warn"]) if each[0] == "G4"]
    assert [each[2] for each in lost[:1]] == ([1] if stops else [])


def test_a_script_that_catches_everything_is_ended_all_the_same(seen: dict[str, Any]) -> None:
    assert seen["caught"]["code"] == STOPPED
    assert seen["caught"]["events"][-1] == {"event": "script_exit", "code": STOPPED}


def test_a_forked_worker_is_not_watched(seen: dict[str, Any]) -> None:
    assert seen["in_a_worker"]["value"] == 7
    assert seen["in_a_worker"]["events"] == []


def test_a_rehearsal_leaves_gloo_to_the_rank_which_gives_its_threads_a_moment(seen: dict[str, Any]) -> None:
    assert seen["rehearsed_on_gloo"]["value"] is True


def test_optimizers_scalers_and_wrapped_functions_still_pickle(seen: dict[str, Any]) -> None:
    assert seen["pickled"]["value"] == ["GradScaler", 1]
    assert failures(seen["pickled"]) == []


def test_ranks_of_one_host_are_compared_though_nobody_follows_the_run(seen: dict[str, Any]) -> None:
    assert reports(seen["beside_a_like_rank"]) == []
    assert reports(seen["beside_an_unlike_rank"]) == [("G7", True, 1)]
    assert seen["beside_an_unlike_rank"]["code"] == STOPPED
    (stop,) = [each for each in seen["beside_an_unlike_rank"]["events"] if each["event"] == "guard"]
    assert "rank 1 and rank 0 of this host" in stop["message"]
    assert "bfloat16" in stop["message"]
    shared = [
        each["message"] for each in seen["beside_a_rank_on_the_same_gpu"]["events"] if "message" in each
    ]
    assert any("are on one GPU, GPU-0" in message for message in shared)


def test_another_gpu_than_planned_and_emulated_bf16_are_told(seen: dict[str, Any]) -> None:
    messages = {each["code"]: each for each in seen["fake_gpus"]["events"] if each["event"] == "guard"}
    assert messages["G6"]["severity"] == "stop"
    assert "GPU-0" in messages["G6"]["message"]
    assert "GPU-1" in messages["G6"]["message"]
    assert "7.5" in messages["G8"]["message"]
