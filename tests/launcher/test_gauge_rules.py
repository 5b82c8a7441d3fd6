"""What the gauge takes for life, on samples as literals."""

from typing import Any

import pytest

from launcher.onhost.gauge.liveness import IdleTimer, explain_activity
from launcher.onhost.gauge.ranks import IoActivity

IDLE = {"busy": 0, "memory_busy": 0, "memory_mib": 9000, "power_w": 35.0, "power_limit_w": 350.0}
TRAINS = {**IDLE, "busy": 97, "memory_busy": 55, "power_w": 290.0}
SPINS = {**IDLE, "busy": 100, "memory_busy": 0, "power_w": 95.0}
GPU_OF = {"0": "GPU-a", "1": "GPU-b"}


def seen(*gpus: dict[str, Any], cpu: tuple[float | None, ...] = (1.0, 1.0)) -> dict[str, Any]:
    ranks = {str(n): {"rss_mib": 100, "cpu": percent} for n, percent in enumerate(cpu)}
    return {"gpus": dict(zip(("GPU-a", "GPU-b"), gpus, strict=False)), "ranks": ranks}


def alive(
    line: dict[str, Any],
    drawn: dict[str, float] | None = None,
    io: dict[str, int] | None = None,
    starved: dict[str, float] | None = None,
) -> str:
    activity = IoActivity()
    activity.io, activity.starved = io or {}, starved or {}
    return explain_activity(
        line, activity, GPU_OF, {"GPU-a": 300.0, "GPU-b": 300.0} if drawn is None else drawn
    )


def test_a_gpu_that_trains_is_life() -> None:
    assert alive(seen(IDLE, TRAINS)) == "GPU GPU-b works"


def test_gpus_that_wait_in_a_collective_are_none_though_they_are_fully_busy() -> None:
    assert alive(seen(SPINS, SPINS, cpu=(100.0, 100.0))) == ""


def test_one_gpu_idle_and_the_other_waiting_for_it_is_no_life() -> None:
    assert alive(seen(IDLE, SPINS, cpu=(1.0, 100.0))) == ""


def test_a_rank_that_computes_on_the_cpu_while_the_others_wait_for_it_is_life() -> None:
    assert alive(seen(IDLE, SPINS, cpu=(100.0, 100.0))) == "rank 0 uses the CPU"


def test_the_power_limit_says_what_little_power_is_where_steps_do_not() -> None:
    assert alive(seen(SPINS, SPINS), drawn={}) == ""
    assert alive(seen(SPINS, SPINS), drawn={"GPU-a": 110.0, "GPU-b": 110.0}) == ""  # it waited for data
    evaluates = {**SPINS, "power_w": 200.0}
    assert alive(seen(evaluates, SPINS), drawn={}) == "GPU GPU-a works"


@pytest.mark.parametrize("unknown", ["power_w", "memory_busy"])
def test_a_busy_gpu_that_does_not_tell_enough_counts_as_working(unknown: str) -> None:
    assert alive(seen({**SPINS, unknown: None}, IDLE)) == "GPU GPU-a works"


def test_a_busy_gpu_that_touches_memory_works_at_any_power() -> None:
    assert alive(seen({**SPINS, "memory_busy": 12}, IDLE)) == "GPU GPU-a works"


def test_without_gpu_readings_the_cpu_decides() -> None:
    assert alive(seen(cpu=(3.0, None))) == ""
    assert alive(seen(cpu=(3.0, 45.0))) == "rank 1 uses the CPU"


def test_a_rank_that_gets_no_cpu_on_a_crowded_host_is_alive() -> None:
    assert alive(seen(IDLE, IDLE), starved={"1": 80.0}) == "rank 1 uses the CPU"


def test_reading_and_writing_is_life() -> None:
    assert alive(seen(IDLE, IDLE), io={"0": 5 << 20}) == "rank 0 reads or writes"
    assert alive(seen(IDLE, IDLE), io={"0": 4096}) == ""


def events(quiet: IdleTimer, lives: str, step_s: float = 60.0) -> list[tuple[int, str]]:
    """Return (sample, event) for samples of `.` (nothing) and `!` (life)."""
    found = []
    for number, life in enumerate(lives):
        event = quiet.update(number * step_s, life=life == "!", longest_s=3 * step_s)
        if event is not None:
            found.append((number, event["event"]))
    return found


def test_quiet_is_told_after_ten_minutes_and_then_more_and_more_seldom() -> None:
    assert events(IdleTimer(None, 600.0), "!" + "." * 45) == [(10, "idle"), (20, "idle"), (40, "idle")]


def test_life_again_is_told_only_when_quiet_was() -> None:
    assert events(IdleTimer(None, 600.0), "!" + "." * 5 + "!" + "." * 12 + "!") == [
        (16, "idle"),
        (19, "active"),
    ]


def test_from_the_timeout_on_it_is_told_again_and_again() -> None:
    assert events(IdleTimer(180.0, 600.0), "!" + "." * 5) == [(3, "idle"), (4, "idle"), (5, "idle")]


def test_a_timeout_after_the_warning_is_told_at_its_time() -> None:
    assert events(IdleTimer(900.0, 600.0), "!" + "." * 16) == [(10, "idle"), (15, "idle"), (16, "idle")]


def test_a_machine_that_stood_still_was_not_quiet() -> None:
    quiet = IdleTimer(600.0, 600.0)
    assert quiet.update(0.0, life=True, longest_s=15.0) is None
    assert quiet.update(3600.0, life=False, longest_s=15.0) is None
    assert quiet.seconds == 15.0
