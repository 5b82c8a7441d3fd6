"""Where the last of several runs starts that were appended to one log, each condition on both sides."""

import itertools
import time

import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.lines import Line
from preflight.diagnosis.run_starts import find_last_start
from tests.preflight.diagnosis_logs import name


def log(*texts: str, ranks: int = 0) -> list[Line]:
    return [Line(n + 1, text, n % ranks if ranks else None, order=n) for n, text in enumerate(texts)]


_UNLIKE = itertools.count()


def filler(count: int) -> list[str]:
    """Lines of which no two are alike."""
    return [f"{name(next(_UNLIKE))} other words" for _ in range(count)]


def started(texts: list[str], *failing: int, ranks: int = 0) -> int:
    lines = log(*texts, ranks=ranks)
    return find_last_start(lines, [lines[at] for at in failing])


def job(number: int) -> str:
    return f"slurmstepd: error: *** JOB {number} ON n1 CANCELLED AT 2026-01-01 ***"


def tracked(name: str) -> str:
    return f"wandb: Run data is saved locally in /home/ana/wandb/run-20260101_10-{name}"


NOHUP = "nohup: ignoring input and appending output to 'nohup.out'"


@pytest.mark.parametrize(
    ("texts", "failing", "start"),
    [
        ([*filler(9), job(7), *filler(20), job(8)], (3,), 10),
        ([*filler(9), job(7), *filler(20), job(7)], (3,), 0),
        ([*filler(9), job(7), *filler(14), job(8)], (3,), 10),  # fifteen lines
        ([*filler(9), job(7), *filler(13), job(8)], (3,), 0),
        ([NOHUP, *filler(8), NOHUP, *filler(20)], (3,), 9),
        ([NOHUP, *filler(8), NOHUP, *filler(20)], (12,), 0),
        ([NOHUP, *filler(8), NOHUP, *filler(20)], (), 0),
        ([tracked("a"), *filler(8), tracked("b"), *filler(20)], (3,), 9),
        ([tracked("a"), *filler(8), tracked("b"), *filler(20)], (3, 20), 9),
        ([tracked("a"), *filler(8), tracked("a"), *filler(20)], (3,), 0),
        ([tracked("a"), *filler(8), tracked("b"), *filler(20)], (12,), 0),
        ([*filler(5), "train.py: error: no such option", *filler(30), "KeyError: 3"], (5, 36), 6),
        ([*filler(5), "train.py: error: no such option", *filler(30)], (5,), 0),
        ([*filler(5), "train.py: error: no such option", *filler(40)], (5,), 6),
        ([*filler(5), "train.py: error: no such option", *filler(39)], (5,), 0),
        ([*filler(5), "run.sh: line 7: conda: command not found", *filler(40)], (5,), 6),
        ([*filler(5), "error: subprocess-exited-with-error", *filler(40), "Killed"], (5, 46), 6),
        ([*filler(5), "train.py: error: no such option", "srun: error: x", *filler(40)], (5, 6), 0),
        ([*filler(5), "RuntimeError: x", *filler(99)], (5,), 0),
        (
            [*filler(5), "a.py: error: x", *filler(2), "a.py: error: y", *filler(30), "KeyError: 3"],
            (5, 8, 39),
            9,
        ),
        ([*filler(5), "KeyError: 2", *filler(99), "KeyError: 3", *filler(20)], (5, 105), 6),
        ([*filler(5), "KeyError: 2", *filler(98), "KeyError: 3", *filler(20)], (5, 104), 0),
        (
            [*filler(5), "KeyError: 2", *filler(99), "NCCL WARN x", *filler(20), "KeyError: 3"],
            (5, 105, 126),
            0,
        ),
    ],
)
def test_a_run_that_was_appended_starts_behind_what_ended_the_one_before(
    texts: list[str], failing: tuple[int, ...], start: int
) -> None:
    assert started(texts, *failing) == start


def test_where_several_ranks_are_seen_an_error_of_one_starts_no_run() -> None:
    texts = [*filler(5), "KeyError: 2", *filler(99), "KeyError: 3", *filler(20)]
    assert started(texts, 5, 105, ranks=2) == 0
    assert started(texts, 5, 105, ranks=1) == 6


LOADED = ["library was loaded with AVX2"] * 2
"""What each process prints that imports it, and each worker again."""
HEAD = ["loading the model number 1", "reading the data set of 30 rows"]
AGAIN = ["loading the model number 2", "reading the data set of 31 rows"]


@pytest.mark.parametrize(
    ("texts", "failing", "start"),
    [
        ([*HEAD, *filler(18), *AGAIN, *filler(20)], (10,), 20),
        ([*HEAD, *filler(18), *AGAIN, *filler(20)], (25,), 0),  # twice before a failure: another rank
        ([*HEAD, *filler(13), *AGAIN, *filler(20)], (10,), 15),
        ([*HEAD, *filler(12), *AGAIN, *filler(20)], (10,), 0),  # so near they are of one run
        ([*HEAD, *filler(18), *AGAIN, *filler(18), *HEAD, *filler(20)], (10, 30), 40),
        ([*HEAD, *filler(18), *AGAIN, *filler(18), *HEAD, *filler(20)], (10,), 20),
        ([*HEAD, *filler(18), AGAIN[0], "another line below", *filler(20)], (10,), 0),
        (["short 1", HEAD[1], *filler(18), "short 1", HEAD[1], *filler(20)], (10,), 0),
        (["a longer", HEAD[1], *filler(18), "a longer", HEAD[1], *filler(20)], (10,), 20),
        ([*LOADED, *HEAD, *filler(16), *LOADED, *AGAIN, *filler(20)], (10,), 22),
        ([*LOADED, *HEAD, *filler(16), *LOADED, AGAIN[0], *filler(20)], (10,), 0),
        ([*LOADED, *HEAD, *filler(16), *LOADED, AGAIN[0], *filler(2), AGAIN[1], *filler(20)], (10,), 0),
        (
            [*filler(11), *HEAD, *filler(7), *AGAIN, *filler(20)],
            (15,),
            0,
        ),  # the second is not at the beginning
    ],
)
def test_a_run_that_starts_as_the_first_did_is_another(
    texts: list[str], failing: tuple[int, ...], start: int
) -> None:
    assert started(texts, *failing) == start


@pytest.mark.parametrize(
    "last", ["saved to " + "run_1_of_" * 9, "- " * 9000, "a_" * 9000, "_" * 9000, "[a b] " * 900]
)
def test_the_last_line_of_a_log_takes_time_in_proportion_to_its_length(last: str) -> None:
    began = time.process_time()
    assert diagnose(f"step 1 loss 2.0\nstep 2 loss 1.9\n{last}\n").causes == ()
    assert time.process_time() - began < 2


AT_ONCE = [
    "Traceback (most recent call last):",
    '  File "fit.py", line 1, in <module>',
    "    from parts import *",
    '  File "parts.py", line 8',
    "    return rows",
    "IndentationError: unindent does not match any outer indentation level",
]


@pytest.mark.parametrize(("above", "start"), [([], 26), (["[rank 0] local_rank: 0"], 0)])
def test_a_first_run_that_failed_at_once_is_none_to_compare_the_others_with(
    above: list[str], start: int
) -> None:
    texts = [*AT_ONCE, *HEAD, *filler(17), "KeyError: 'rows'", *AGAIN, *filler(20)]
    assert started([*texts, *above], 0, 5, 25) == start


NOT_PARSED = ['  File "fit.py", line 71', "    rows = read(path)", "    ^", "SyntaxError: invalid syntax"]
NOT_FOUND = [
    "Traceback (most recent call last):",
    '  File "fit.py", line 3, in <module>',
    "    from parts import read",
    "ModuleNotFoundError: No module named 'parts'",
]


def test_a_script_that_python_cannot_parse_has_ended_and_what_is_below_is_another_run() -> None:
    assert started([*NOT_PARSED, *NOT_FOUND, "bye"], 3, 4, 7) == 4
    assert started([*NOT_PARSED[:3], "SyntaxWarning: invalid escape", *NOT_FOUND, "bye"], 3, 4, 7) == 0
    assert started([*NOT_PARSED, "Epoch 1", *NOT_FOUND, "bye"], 3, 5, 8) == 0  # not right below
    text = "\n".join([*NOT_PARSED, *NOT_FOUND, ""])
    assert diagnose(text).causes[0].code == "S89"


def test_of_first_lines_sixty_characters_are_compared() -> None:
    same, other = "train " + "x" * 54, "train " + "x" * 53 + "y"
    for first, second, start in ((same + " a", same + " b", 20), (same, other, 0)):
        assert started([first, HEAD[1], *filler(18), second, HEAD[1], *filler(20)], 10) == start
