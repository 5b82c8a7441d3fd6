"""Steps as the runs of a log count them: one that starts again, and two that write in turn. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.signature_matcher import shape
from preflight.frozen import dataclass

_COUNTED = re.compile(r"\b(?:[Ss]tep|STEP|[Ii]ter(?:ation)?|[Ee]poch)s?\b\W{1,4}(\d{1,9})\b")
_NO_STEP = re.compile(
    r'(?i)error|fail|exception|retr(?:y|ied)|attempt|warn|timed? ?out|wait|skip|assert|NCCL|"GET /|^\[?[EWF]1|^frame #|^\S+ : '
)
_TURN = re.compile(r"(?=\S)[\d\W]*(?:[A-Z]{2,5}\b)?(?=.*[a-z]{2}).*\d")  # a stamp alone is none
_WORD, _FIRST_WORDS = re.compile(r"[^\W\d_]{2,}"), 3
_LONGEST = 120
"""Characters of a line in which its counter is looked for."""
FEWEST_STEPS, _SWITCHES = 3, 3
_APART = 10
"""Steps by which the ranks of one run may be apart."""


@dataclass(frozen=True, slots=True)
class CountedStep:
    """A line with a counter that is alone in it. `head`: what is before the number, without numbers."""

    order: int
    head: str
    value: int


def counted_steps(lines: Iterable[Line]) -> list[CountedStep]:
    """Return the steps of lines with one counter; one of an epoch's batches has two, and starts anew in each."""
    found: list[CountedStep] = []
    for line in lines:
        text = line.text[:_LONGEST]
        if "tep" not in text and "ter" not in text and "poch" not in text and "STEP" not in text:
            continue
        counters = list(_COUNTED.finditer(text))
        if len(counters) == 1:
            head = shape(text[: counters[0].start(1)])
            found.append(CountedStep(line.order, head, int(counters[0][1])))
    return found


def words_of_turn(text: str) -> frozenset[str]:
    """Return the words that the turns of one loop share, however long their bars and numbers are: those that come first."""
    return frozenset(_WORD.findall(text[:_LONGEST])[:_FIRST_WORDS])


def names_step(text: str) -> bool:
    """Whether a line counts a step."""
    return _COUNTED.search(text[:_LONGEST]) is not None


def is_of_loop(text: str) -> bool:
    """Whether a line of a format that repeats may be what a loop prints in each turn: it has a number, and reports nothing."""
    return _TURN.match(text) is not None and _NO_STEP.search(text) is None


def rise(steps: Sequence[CountedStep]) -> bool:
    """Whether each step is behind the one before, as one process counts them."""
    return all(one.value < other.value for one, other in pairwise(steps) if one.head == other.head)


def step_rows(steps: Sequence[CountedStep]) -> list[list[list[CountedStep]]]:
    """Return for each head its steps in rows that only rise: as many as runs, or ranks far apart, write at a time."""
    by_head: dict[str, list[CountedStep]] = {}
    for step in steps:
        by_head.setdefault(step.head, []).append(step)
    return [rows for own in by_head.values() if len(rows := _rows(own)) > 1]


def writer_ended(rows: Sequence[Sequence[list[CountedStep]]], at: int) -> bool:
    """Whether of two runs that wrote their steps in turn up to a place one wrote none behind it, and the other did."""
    return any(_one_ended(own, at) for own in rows)


def _rows(steps: Sequence[CountedStep]) -> list[list[CountedStep]]:
    """Return rows of steps: each step continues the row that is the least behind it."""
    rows: list[list[CountedStep]] = []
    for step in steps:
        behind = [row for row in rows if row[-1].value <= step.value]
        if behind:
            max(behind, key=lambda row: row[-1].value).append(step)
        elif len(rows) < _APART:
            rows.append([step])
    return rows


def _one_ended(rows: Sequence[list[CountedStep]], at: int) -> bool:
    for row in rows:
        if len(row) < FEWEST_STEPS or row[-1].order > at:
            continue
        for other in rows:
            before = [step for step in other if row[0].order < step.order < at]
            goes_on = sum(1 for step in other if step.order > at) >= FEWEST_STEPS
            if other is row or not before or not goes_on:
                continue
            apart = abs(before[-1].value - row[-1].value) > _APART
            if apart and _switches(row, before) >= _SWITCHES and _near(row, before):
                return True
    return False


def _switches(one: Sequence[CountedStep], other: Sequence[CountedStep]) -> int:
    """Return how often two rows take turns."""
    turns = sorted([(step.order, 0) for step in one] + [(step.order, 1) for step in other])
    return sum(1 for (_, before), (_, after) in pairwise(turns) if before != after)


def _near(row: Sequence[CountedStep], other: Sequence[CountedStep]) -> bool:
    """Whether a row was written until the end of the turns: the other made only a few steps behind its last."""
    return sum(1 for step in other if step.order > row[-1].order) <= _APART
