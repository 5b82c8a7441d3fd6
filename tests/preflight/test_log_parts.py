"""Parts of the diagnosis that read lines and numbers, each condition on both sides."""

import itertools

import pytest

from preflight.diagnosis.line_unwrap import unwrap_lines
from preflight.diagnosis.lines import Line, unwrap
from preflight.diagnosis.one_line_tracebacks import unfold
from preflight.diagnosis.paste_marks import without_numbers
from preflight.diagnosis.prefix_templates import find_prefixes
from preflight.diagnosis.run_starts import last_start
from preflight.diagnosis.timestamps import parse_timestamp
from tests.preflight.diagnosis_logs import name
from tests.preflight.log_lines import read_lines

# --- stamps ---

MARCH_2 = (3 * 31 + 2) * 86400 + 10 * 3600 + 20 * 60 + 30


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-03-02T10:20:30.5Z x", MARCH_2 + 0.5),
        ("2026/03/02 10:20:30,25 x", MARCH_2 + 0.25),
        ("[rank0]:I0302 10:20:30.75 12 x.py:1] x", MARCH_2 + 0.75),
        ("03/02/2026 10:20:30 - INFO", MARCH_2),
        ("03/02 10:20:30 - INFO", MARCH_2),
        ("Mar  2 10:20:30 host x", MARCH_2),
        ("Mon Mar 2 2026 10:20:30", MARCH_2),
        ("Jan 31 00:00:00", (31 + 31) * 86400),
        ("Dec 1 00:00:00", (12 * 31 + 1) * 86400),
        ("10:20:30 x", None),
        ("2026-03-02 x", None),
        (" " * 101 + "2026-03-02 10:20:30", MARCH_2),
        (" " * 102 + "2026-03-02 10:20:30", None),
    ],
)
def test_a_stamp_is_seconds_since_the_year_began(text: str, seconds: float | None) -> None:
    assert parse_timestamp(text) == seconds


# --- lines that a terminal cut ---


def wide(start: str, width: int = 80, end: str = "") -> str:
    """A line of words that has exactly this width."""
    text = f"{start} " + "lorem ipsum dolor sit amet " * 12
    return text[: width - len(end)].replace("  ", "_ ") + end


def unwrapped(*texts: str) -> list[tuple[int, int]]:
    """Return the number of each line, and how many it was put together of."""
    joined = list(unwrap_lines(texts, [False] * len(texts)))
    starts = [place for place, _ in joined]
    for (place, text), end in zip(joined, [*starts[1:], len(texts)], strict=True):
        parts = [part.strip() for part in texts[place:end]]
        assert text.replace(" ", "") == "".join(parts).replace(" ", "")
    return [(start + 1, end - start) for start, end in zip(starts, [*starts[1:], len(texts)], strict=True)]


def test_one_message_often_is_no_width() -> None:
    assert unwrapped(*[wide("Alpha", 100), "rest"] * 4) == [(place, 1) for place in range(1, 9)]


def wrapped(width: int, following: str = "rest", end: str = "", count: int = 3) -> list[tuple[int, int]]:
    names = ("Alpha", "bravo", "Charlie", "delta")[:count]
    parts = [part for name in names for part in (wide(name, width, end), f"{following} {name}")]
    return unwrapped(*parts)


TWO_AND_TWO = [(1, 2), (3, 2), (5, 2)]
APART = [(number, 1) for number in range(1, 7)]


@pytest.mark.parametrize(
    ("width", "following", "end", "joined"),
    [
        (80, "rest", "", TWO_AND_TWO),
        (60, "rest", "", TWO_AND_TWO),
        (59, "rest", "", APART),
        (250, "rest", "", TWO_AND_TWO),
        (251, "rest", "", APART),
        (80, "Traceback (most recent call last):", "", APART),
        (80, '  File "x.py", line 1', "", APART),
        (80, "[rank1]: x", "", APART),
        (80, "2026-03-02 10:00:00 x", "", APART),
        (80, "40%|## x", "", APART),
        (80, "==========", "", TWO_AND_TWO),
        (80, "rest", "x │", APART),
        (80, "rest", "x   ", APART),
        (80, "rest", "xy  ", TWO_AND_TWO),
    ],
)
def test_lines_of_the_greatest_width_continue(
    width: int, following: str, end: str, joined: list[tuple[int, int]]
) -> None:
    assert wrapped(width, following, end) == joined


def test_two_lines_of_one_width_make_no_terminal() -> None:
    assert wrapped(80, count=2) == APART[:4]


def test_lines_of_one_format_are_whole_each() -> None:
    assert unwrapped(*(wide(f"step {n} loss") for n in (1, 2, 3, 4))) == [(n, 1) for n in range(1, 5)]
    assert unwrapped(*(wide(f"step {n} loss") for n in (1, 2, 3)), "TERM_MEMLIMIT: job killed")[-1] == (4, 1)


def test_a_line_in_many_parts_is_joined_up_to_twelve() -> None:
    parts = [wide(f"{letter * 6}") for letter in "abcdefghijklmno"]
    assert unwrapped(*parts) == [(1, 12), (13, 3)]


def test_rules_and_bars_are_no_measure_of_a_terminal() -> None:
    rules = ["=" * 90, "node-1: " + "-" * 82]
    assert unwrapped(*rules, *rules, wide("Alpha"), "rest", wide("bravo"), "more", wide("Charlie")) == [
        (1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (7, 2), (9, 1),
    ]  # fmt: skip
    bar = " 40%|####      | 40/100 [00:01<00:01, 39.90it/s, v_num=0, train_loss_step=2.310, lr=1e-4]"
    assert unwrapped(bar, bar, bar, "x") == [(n, 1) for n in range(1, 5)]


BOX = "╰" + "─" * 68 + "╯"  # 70 wide


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("ValueError: " + "x" * 54, "words", True),  # 66 + 1 + 5 > 70
        ("ValueError: " + "x" * 52, "words", False),  # 64 + 1 + 5 = 70: it would have fitted
        ("ValueError: " + "x" * 53, "words", True),
        ("ValueError: " + "x" * 58, "words", True),  # 70
        ("ValueError: " + "x" * 59, "words", False),  # wider than the box
        ("ValueError: " + "x" * 54, "KeyError: x", False),
        ("ValueError: " + "x" * 54, "    indented", False),
    ],
)
def test_below_a_box_words_are_broken_at_its_width(first: str, second: str, *, is_one: bool) -> None:
    assert unwrapped("a", BOX, first, second) == [(1, 1), (2, 1), *([(3, 2)] if is_one else [(3, 1), (4, 1)])]


@pytest.mark.parametrize(
    ("text", "bar", "behind"),
    [
        ("RuntimeError: x", "", "RuntimeError: x"),
        (" 25%|##   | 5/20 [00:00<00:00, 77.45it/s]RuntimeError: x", "", "RuntimeError: x"),
        ("━━━━━━━━ 12/20 RuntimeError: x", "", "RuntimeError: x"),
        ("12it [00:03, 3.2it/s] RuntimeError: x", "", "RuntimeError: x"),
        ("3/9 [=====>....] RuntimeError: x", "", "RuntimeError: x"),
        ("12it [00:03, 3.2it/s]--- Logging error ---", "", "--- Logging error ---"),
        (
            "12it [00:03, 3.2it/s, loss=2.1] RuntimeError: x",
            "12it [00:03, 3.2it/s, loss=2.1] ",
            "RuntimeError: x",
        ),
        ("12it [00:03, 3.2it/s, loss=2.1]", "", "12it [00:03, 3.2it/s, loss=2.1]"),
    ],
)
def test_what_is_printed_behind_a_bar_is_read(text: str, bar: str, behind: str) -> None:
    assert unwrap(text) == (None, bar, behind)


@pytest.mark.parametrize(
    ("text", "rank", "behind"),
    [
        ("[rank3]: x", 3, "x"),
        ("[default12]:x", 12, "x"),
        ("[a/r2] x", 2, "x"),
        ("7: x", 7, "x"),
        ("[1,4]<stderr>:x", 4, "x"),
        ("[rank: 5] x", 5, "x"),
        ("2026-03-01T10:00:00Z [rank1]: [rank2]: x", 2, "x"),
        ("[rank1] [rank1] [rank1] [rank1] [rank1] x", 1, "[rank1] x"),
        ("x: y", None, "x: y"),
    ],
)
def test_prefixes_name_the_rank(text: str, rank: int | None, behind: str) -> None:
    assert unwrap(text) == (rank, "", behind)


# --- where the last of several runs starts ---


def log(*texts: str, ranks: int = 0) -> list[Line]:
    return [Line(n + 1, text, n % ranks if ranks else None, order=n) for n, text in enumerate(texts)]


_UNLIKE = itertools.count()


def filler(count: int) -> list[str]:
    """Lines of which no two are alike."""
    return [f"{name(next(_UNLIKE))} other words" for _ in range(count)]


def started(texts: list[str], *failing: int, ranks: int = 0) -> int:
    lines = log(*texts, ranks=ranks)
    return last_start(lines, [lines[at] for at in failing])


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


def test_of_first_lines_sixty_characters_are_compared() -> None:
    same, other = "train " + "x" * 54, "train " + "x" * 53 + "y"
    for first, second, start in ((same + " a", same + " b", 20), (same, other, 0)):
        assert started([first, HEAD[1], *filler(18), second, HEAD[1], *filler(20)], 10) == start


# --- tracebacks in one line, numbered listings ---

TRACE = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("step 1 loss 2.0", ["step 1 loss 2.0"]),
        (TRACE, [TRACE]),
        (f"{TRACE} and much more that is written in a line", None),
        (
            f'x: {TRACE} File "a.py", line 1, in f g(1) ValueError: a KeyError: b',
            ["x", TRACE, '  File "a.py", line 1, in f g(1)', "ValueError: a KeyError: b"],
        ),
        (
            rf'{{"exc": "{TRACE}\n  File \"a.py\", line 1, in f\n    g(1)\nValueError: b\n", "n": 1}}',
            ["exc", TRACE, '  File "a.py", line 1, in f', "    g(1)", "ValueError: b"],
        ),
        (
            f'RunError: Command "a" {TRACE} File "a.py", line 1, in f KeyError: b',
            [TRACE, '  File "a.py", line 1, in f', "KeyError: b"],
        ),
        (rf'WARNING again: {TRACE}\n  File "a.py", line 1, in f\nValueError: b', None),
        (f'will retry: {TRACE} File "a.py", line 1, in f g(1) ValueError: a', None),
    ],
)
def test_a_traceback_in_one_line_is_taken_apart(text: str, lines: list[str] | None) -> None:
    assert list(unfold(text)) == (lines or [text])


def test_the_numbers_of_a_listing_are_taken_away() -> None:
    whole = [f"  text {n}" for n in range(20)]
    for form in ("{n}: {text}", "   {n}\t{text}", "{n} {text}"):
        numbered = [form.format(n=n + 30, text=text) for n, text in enumerate(whole)]
        assert list(without_numbers(["", *numbered, ""])) == ["", *whole, ""]
        assert without_numbers(numbered[::2]) == numbered[::2]
        few = numbered[:4] if form[3:5] == ": " else whole[:4]  # which may be four tasks of srun
        assert list(without_numbers(numbered[:4])) == few
    assert without_numbers(whole) == whole
    tasks = [f"{n}: {text}" for n, text in enumerate(whole)]
    assert without_numbers(tasks) == tasks


FRAME = '  File "a.py", line 1, in f'


@pytest.mark.parametrize(
    ("texts", "lengths"),
    [
        ([f"[j 7] {TRACE}", f"[j 8] {FRAME}", "[j 9] x", "[k 9] x"], [6, 6, 6, 0]),
        ([f"[j 7] {TRACE}", FRAME, "[j 9] x"], [0, 0, 0]),
        ([f"[j 7] {TRACE}", f"[k 7] {FRAME}"], [0, 0]),
        ([f"[j 7] WARNING {TRACE}", f"[j 8] WARNING {FRAME}"], [0, 0]),
        ([f"{'j' * 161}{TRACE}", f"{'j' * 161}{FRAME}"], [0, 0]),
        ([TRACE, FRAME], [0, 0]),
    ],
)
def test_tracebacks_show_the_prefix_of_their_collector(texts: list[str], lengths: list[int]) -> None:
    assert [len(each.text) for each in find_prefixes(texts)] == lengths


def test_a_prefix_that_tracebacks_show_may_name_the_rank() -> None:
    texts = (TRACE, FRAME, "KeyError: 1")
    lines = [f"job-7 rank={rank} {text}" for text in texts for rank in (3, 14)]
    assert [(line.rank, line.text) for line in read_lines("\n".join(lines))] == [
        (rank, text) for text in texts for rank in (3, 14)
    ]
