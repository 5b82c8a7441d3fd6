"""Steps and turns of loops as a run's lines count them. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.signature_matcher import zero_numbers
from preflight.frozen import dataclass

_COUNTED = re.compile(r"\b(?:[Ss]tep|STEP|[Ii]ter(?:ation)?|[Ee]poch)s?\b\W{1,4}(\d{1,9})\b")
_BAR = re.compile(r"\| *(\d+)/(\d+) \[")
_NO_STEP = re.compile(
    r'(?i)error|fail|exception|retr(?:y|ied)|attempt|warn|timed? ?out|wait|skip|assert|NCCL|"GET /|^\[?[EWF]1|^frame #|^\S+ : '
)
_TURN = re.compile(r"(?=\S)[\d\W]*(?:[A-Z]{2,5}\b)?(?=.*[a-z]{2}).*\d")  # a stamp alone is none
_WORD, _FIRST_WORDS = re.compile(r"[^\W\d_]{2,}"), 3
_LONGEST = 120  # characters of a line in which its counter is looked for
FEWEST_STEPS = 3


@dataclass(frozen=True, slots=True)
class CountedStep:
    """A line with a counter that is alone in it. `head`: what is before the number, without numbers."""

    order: int
    head: str
    value: int


def parse_steps(lines: Iterable[Line]) -> list[CountedStep]:
    """Return the steps of lines with one counter; one of batches has two, and starts anew in each epoch."""
    found: list[CountedStep] = []
    for line in lines:
        text = line.text[:_LONGEST]
        if "tep" not in text and "ter" not in text and "poch" not in text and "STEP" not in text:
            continue
        counters = list(_COUNTED.finditer(text))
        if len(counters) == 1:
            head = zero_numbers(text[: counters[0].start(1)])
            found.append(CountedStep(line.order, head, int(counters[0][1])))
    return found


def get_turn_words(text: str) -> frozenset[str]:
    """Return the first words of a text, which one loop's turns share, however long bars and numbers are."""
    return frozenset(_WORD.findall(text[:_LONGEST])[:_FIRST_WORDS])


def names_step(text: str) -> bool:
    """Whether a line counts a step."""
    return _COUNTED.search(text[:_LONGEST]) is not None


def is_of_loop(text: str) -> bool:
    """Whether a line of a repeated format may be a loop's: it has a number, and reports nothing."""
    return _TURN.match(text) is not None and _NO_STEP.search(text) is None


def is_rising(steps: Sequence[CountedStep]) -> bool:
    """Whether each step is behind the one before, as one process counts them."""
    return all(one.value < other.value for one, other in pairwise(steps) if one.head == other.head)


def count_on(lines: Sequence[Line], place: int) -> bool:
    """Whether turns count on behind a place: they rise, and no bar starts anew that was not full."""
    bars = [(line.order, int(bar[1]), int(bar[2])) for line in lines if (bar := _BAR.search(line.text))]
    _, first, total = next((bar for bar in bars if bar[0] > place), (0, 0, 0))
    last = max((bar for bar in bars if bar[0] < place and bar[2] == total), default=None)
    anew = last is not None and first <= last[1] < total
    return not anew and is_rising(parse_steps(lines))
