"""Checks at their limits: what one fact more or less makes of them."""

import random

import pytest

from preflight.checks.runner import check_host
from preflight.checks.unread_facts import fix_missing
from preflight.checks.wheels import WHEELS, Wheel, runs_on
from preflight.decide.script_args import get_option
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from tests.preflight.scenes import Scene
from tests.preflight.transcripts import WRITES_ANEW, changed_transcripts


def test_checks_change_their_minds_where_their_transcripts_say() -> None:
    assert changed_transcripts("limits") == {}, WRITES_ANEW


def reported(scene: Scene) -> list[tuple[str, str]]:
    findings = check_host(scene.facts(), Job(), Expect())
    return [(each.code, each.subject) for each in findings if each.code == "PROC004"]


@pytest.mark.parametrize(
    ("state", "age_s", "is_reported"), [("T", 599.0, True), ("S", 599.0, False), ("T", 600.0, False)]
)
def test_a_stopped_process_is_reported_until_it_is_a_leftover(
    state: str, age_s: float, *, is_reported: bool
) -> None:
    scene = Scene(random.Random(1))
    pid = scene.add(gpus=(0,), state=state, age_s=age_s)
    assert reported(scene) == ([("PROC004", f"pid {pid}")] if is_reported else [])


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("--steps", "4"), 4),
        (("--steps=4",), 4),
        (("--other", "1", "--steps", "4", "--more"), 4),
        (("--steps", "4", "--steps", "5"), 4),
        (("--steps",), None),
        (("--steps", "auto"), None),
        (("--steps=",), None),
        (("--steps", "\u0664"), None),
        (("--stepsize", "4"), None),
        ((), None),
    ],
)
def test_a_number_among_the_arguments_is_found(words: tuple[str, ...], value: int | None) -> None:
    assert get_option(words, "--steps") == value


def test_every_wheel_names_releases_in_order_and_kernels_once() -> None:
    for wheel in WHEELS:
        assert (2, 0) < wheel.first <= wheel.last
        assert sorted(set(wheel.kernels)) == list(wheel.kernels)
    released = {(wheel.cuda, minor) for wheel in WHEELS for minor in range(wheel.first[1], wheel.last[1] + 1)}
    assert len(released) == sum(wheel.last[1] - wheel.first[1] + 1 for wheel in WHEELS)
    for minor in range(3, 15):  # each release of torch has wheels for two to four CUDA versions
        assert 2 <= sum((cuda, minor) in released for cuda in {wheel.cuda for wheel in WHEELS}) <= 4, minor


@pytest.mark.parametrize(
    ("kernels", "gpu", "runs"),
    [
        (((8, 0), (8, 6)), (8, 6), True),
        (((8, 0), (8, 6)), (8, 9), True),
        (((8, 0), (8, 6)), (9, 0), False),
        (((8, 6),), (8, 0), False),
        (((5, 0), (5, 2)), (5, 3), False),
        (((6, 0), (6, 1)), (6, 2), False),
        (((7, 0),), (7, 2), False),
        (((8, 0), (8, 6)), (8, 7), False),
        (((8, 0), (8, 7)), (8, 7), True),
        (((8, 7),), (8, 9), False),
        (((10, 0),), (10, 1), False),
        (((10, 0),), (10, 3), True),
    ],
)
def test_a_kernel_runs_on_later_minors_but_for_boards_of_their_own_kind(
    kernels: tuple[tuple[int, int], ...], gpu: tuple[int, int], *, runs: bool
) -> None:
    assert runs_on(Wheel((2, 3), (2, 3), "12.1", kernels), gpu) is runs


def test_a_value_that_was_not_read_has_the_fix_of_its_reason() -> None:
    assert "as a user who may read it" in fix_missing(Missing("denied", "no-permission"))
    assert "file server is stuck" in fix_missing(Missing("no answer", "timeout"))
    assert "on the host itself: this source" in fix_missing(Missing("a file", "not-asked"))
    assert "run the preflight again" in fix_missing(Missing("odd", "error"))
