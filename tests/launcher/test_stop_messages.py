"""`gpulaunch stop` says how each rank has ended, in words."""

from typing import Any

import pytest

from launcher.commands.stop import error_of
from launcher.follow.failures import describe_exit


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-15, "ended by SIGTERM"),
        (-9, "ended by SIGKILL"),
        (-99, "ended by signal 99"),
        (None, "exit code not seen"),
        ("x", "exit code not seen"),
    ],
)
def test_a_code_is_told_in_words(code: object, words: str) -> None:
    assert describe_exit(code) == words


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ({}, "ended (no rank had started)"),
        ({"0": -15}, "ended (rank 0: ended by SIGTERM)"),
        (
            {str(rank): -15 for rank in range(12)},
            "ended (ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: ended by SIGTERM)",
        ),
        ({"0": -15, "1": 0, "2": -15}, "ended (ranks 0, 2: ended by SIGTERM; rank 1: exit code 0)"),
    ],
)
def test_ranks_that_ended_alike_are_told_together(codes: dict[str, Any], words: str) -> None:
    assert error_of({"state": {"phase": "ended", "exit": {"ranks": codes}}}) == (words, 0)
