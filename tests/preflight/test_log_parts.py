"""Parts of the diagnosis that read lines and numbers, each condition on both sides."""

import pytest

from preflight.diagnosis.line_unwrap import unwrap_lines
from preflight.diagnosis.lines import unfold_traceback, unwrap
from preflight.diagnosis.paste_marks import strip_numbers
from preflight.diagnosis.prefix_templates import find_prefixes
from preflight.diagnosis.timestamps import parse_timestamp
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
    assert list(unfold_traceback(text)) == (lines or [text])


def test_the_numbers_of_a_listing_are_taken_away() -> None:
    whole = [f"  text {n}" for n in range(20)]
    for form in ("{n}: {text}", "   {n}\t{text}", "{n} {text}"):
        numbered = [form.format(n=n + 30, text=text) for n, text in enumerate(whole)]
        assert list(strip_numbers(["", *numbered, ""])) == ["", *whole, ""]
        assert strip_numbers(numbered[::2]) == numbered[::2]
        few = numbered[:4] if form[3:5] == ": " else whole[:4]  # which may be four tasks of srun
        assert list(strip_numbers(numbered[:4])) == few
    assert strip_numbers(whole) == whole
    tasks = [f"{n}: {text}" for n, text in enumerate(whole)]
    assert strip_numbers(tasks) == tasks


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
