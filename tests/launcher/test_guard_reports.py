"""What guards tell, at the client: warnings once, stops at once, ranks compared without a collective."""

import json
from typing import Any

from launcher.follow.events import HostReport, HostStarted
from launcher.follow.guard_reports import STOP_EXIT, GuardReports, GuardStop
from launcher.follow.outcome import build_outcome
from launcher.follow.run_state import Action, Notify, RunState, StopHosts
from launcher.planning.run_record import build_run_record, read_record
from tests.launcher.guarded_plans import FACTS, guarded
from tests.launcher.run_plans import NOWHERE


def compare(policy: str, **changes: Any) -> list[str | GuardStop]:
    guarding = GuardReports(stops=policy == "stop")
    assert not list(guarding.compare_ranks("a", 0, FACTS))
    return list(guarding.compare_ranks("b", 1, {**FACTS, "gpu": "GPU-1", **changes}))


def test_ranks_that_are_alike_say_nothing() -> None:
    assert compare("stop") == []


def test_two_ranks_on_one_gpu_stop_the_run() -> None:
    (stop,) = compare("stop", gpu="GPU-0")
    assert isinstance(stop, GuardStop)
    assert "rank 0 on a and rank 1 on b are on one GPU, GPU-0" in stop.summary
    assert "accelerator.device" in stop.lines[0]


def test_cpu_ranks_are_on_no_gpu_and_do_not_collide() -> None:
    guarding = GuardReports(stops=True)
    for rank in range(3):
        assert not list(guarding.compare_ranks("a", rank, {**FACTS, "gpu": ""}))


def test_unlike_precision_between_ranks_stops_the_run() -> None:
    for change in ({"mixed_precision": "bf16"}, {"scaler": False}, {"dtypes": {"bfloat16": 4}}):
        (stop,) = compare("stop", **change)
        assert isinstance(stop, GuardStop)
        assert "G7" in stop.summary


def test_the_policy_warn_only_says_so() -> None:
    (said,) = compare("warn", mixed_precision="bf16")
    assert isinstance(said, str)
    assert "fp16 in rank 0 on a; bf16 in rank 1 on b" in said


def test_equal_dtypes_in_other_numbers_are_alike() -> None:
    assert compare("stop", dtypes={"float32": 9}) == []


def test_what_every_rank_sees_of_its_own_gpu_is_a_warning_once() -> None:
    guarding = GuardReports(stops=False)
    seen = (
        "on the CPU, while this rank was given GPU-1",
        "on the CPU, while this rank was given GPU-2a",
        "NaN",
    )
    reports = [{"step": 1, "code": "G6", "message": message} for message in seen]
    said = [list(guarding.add_report("a", rank, fields)) for rank, fields in enumerate(reports)]
    assert [len(each) for each in said] == [1, 0, 1]
    assert [fields for _, _, fields in guarding.events] == reports


def test_unlike_versions_are_a_warning() -> None:
    (said,) = compare("stop", versions={"torch": "2.4.0"})
    assert isinstance(said, str)
    assert "2.4.0" in said


def guard_report(rank: int, host: str = "a", **fields: Any) -> HostReport:
    event = {
        "rank": rank,
        "code": "G1",
        "message": "float16 \x1b[31mtrainables",
        "fix": "load in float32",
        **fields,
    }
    return HostReport(host, "guard", event, at=1.0)


def feed(watch: RunState, *events: Any) -> list[Action]:
    return [action for event in events for action in watch.handle(event)]


def test_a_stop_of_the_guard_ends_every_node_and_is_the_root_cause() -> None:
    watch = RunState(guarded("stop", (None,), (None,)))
    started = HostStarted("a", "/run"), HostStarted("b", "/run")
    stop = guard_report(0, stops=True, step=1, parameters=["lora_A.weight"], parameters_total=30)
    actions = feed(watch, *started, stop, guard_report(1, "b", stops=True, step=1))
    assert [action.hosts for action in actions if isinstance(action, StopHosts)] == [("a", "b")]
    outcome = build_outcome(watch, NOWHERE, 1.0, 1)
    assert (outcome.verdict, outcome.exit_code) == ("failed", STOP_EXIT)
    cause = outcome.cause.failure
    assert cause is not None
    assert cause.summary.startswith("the guard stopped rank 0 on a at optimizer step 1 [G1]: float16")
    assert "\x1b" not in cause.summary
    assert cause.last_lines == ("parameters: lora_A.weight and 29 more", "fix: load in float32")


def test_a_warning_that_every_rank_has_is_said_once() -> None:
    watch = RunState(guarded("stop", (None, None)))
    said = feed(watch, guard_report(0, stops=False, step=3), guard_report(1, stops=False, step=3))
    assert [type(action) for action in said] == [Notify]


def test_what_a_rehearsal_measured_is_in_the_outcome() -> None:
    watch = RunState(guarded("stop", (None,)))
    feed(watch, HostReport("a", "rehearsal", {"rank": 0, "steps": 5}, at=1.0))
    assert build_outcome(watch, NOWHERE, 1.0, 1).measurements.rehearsal[0]["steps"] == 5


def test_who_attaches_later_judges_by_the_same_guard_as_the_launcher() -> None:
    launched = guarded("stop", ("GPU-0",), ("GPU-1",))
    record = json.loads(json.dumps(build_run_record(launched, launched.nodes[0], ())))
    watch = RunState(
        read_record(record).plan
    )  # as `attach` makes it; a host sends its events from the first on
    guard_report = [
        HostReport(host, "guard_facts", {"rank": rank, **FACTS}, 1.0) for host, rank in (("a", 0), ("b", 1))
    ]
    actions = [action for each in guard_report for action in watch.handle(each)]
    assert [stop.hosts for stop in actions if isinstance(stop, StopHosts)] == [("a", "b")]
    assert watch.root_cause is not None
    assert "are on one GPU, GPU-0 [G6]" in watch.root_cause.summary
