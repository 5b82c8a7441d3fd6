"""Loss, gradient norm and loss scale as a running log prints them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from preflight.diagnosis.lines import Line

_VALUE = r"['\"]?(?:tensor\(\s*\[?)?(?P<value>[-+]?(?:nan(?=\.0\b)|nan|inf(?:inity)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?))(?:(?<=nan)\.0)?(?![\w.]*[\w])"
_SEPARATOR = r"['\"]?\s*(?:\((?:avg|mean|smoothed)\))?\s*(?:[:=|]|\bis\b|\s)\s*"
# The name before the value: "loss", "train_loss", "lm loss", "Loss/train", "loss_cls"; what belongs to evaluation,
# scaling or bookkeeping is left out below.
_LOSS = re.compile(
    r"(?<![\w.])(?P<name>(?:[a-z]\w*[ _/.-])?\w*loss(?:[_/]\w+)?)" + _SEPARATOR + _VALUE, re.IGNORECASE
)
_NORM = re.compile(
    r"(?<![\w.])(?:\w+[_/])?(?:grad(?:ient)?s?[_ /-]?norm|gnorm|global[_ ]?norm)" + _SEPARATOR + _VALUE,
    re.IGNORECASE,
)
_SCALE = re.compile(
    r"(?<![\w.])(?:(?:loss|grad|amp|fp16 grad)[_ -]?scale|reducing (?:loss scale )?to|reducing loss scale to)"
    + _SEPARATOR
    + _VALUE,
    re.IGNORECASE,
)
_NOT_TRAINING = re.compile(
    r"(?:^|[_/ .-])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test|dev|best|min|max|prev(?:ious)?|early|old|last|packet|no|zero|scale)(?:$|[_/ .-]|\d)|loss[_ ]scale|lossless",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"^(?:.*[_/ .-])?(?:train(?:ing)?[_/ ])?(?:total[_ ]|lm[_ ]|avg[_ ]|avr[_ ]|mean[_ ]|running[_ ])?loss$",
    re.IGNORECASE,
)
_WORDS = ("loss", "norm", "scale", "LOSS", "Loss")
_TABLE_HEAD = re.compile(r"\b\w*loss\b.*\b\w*loss\b", re.IGNORECASE)
_TABLE_ROW = re.compile(
    r"^\s*\d+/\d+\s+[\d.]+[GM]B?\s+(?P<values>(?:[-+]?(?:nan|inf|[\d.]+)\s+){2,})", re.IGNORECASE
)
MAX_PRINTED = 600
"""Characters of a line in which steps are looked for."""


@dataclass(frozen=True, slots=True)
class Point:
    """One logged step; a value that the line does not hold is None. `rewarded`: reinforcement, whose loss may be 0."""

    line: Line
    loss: float | None
    norm: float | None
    scale: float | None
    rewarded: bool = False


def read_points(lines: Sequence[Line]) -> tuple[Point, ...]:
    """Return the logged steps in order."""
    found: list[Point] = []
    in_table = False
    for line in lines:
        text = line.text
        if any(word in text for word in _WORDS):
            in_table = in_table or _is_table_head(text)
            point = point_of(line)
            if point is not None:
                found.append(point)
        elif in_table and (row := _TABLE_ROW.match(text)):
            values = [float(value) for value in row["values"].split()]
            found.append(Point(line, sum(values), None, None))
    return tuple(found)


def point_of(line: Line) -> Point | None:
    """Return the step that a line logs, None when it logs none."""
    text = line.text[:MAX_PRINTED]
    loss, norm, scale = _loss(text), _value(_NORM, text), _value(_SCALE, text)
    if loss is None and norm is None and scale is None:
        return None
    return Point(line, loss, norm, scale, "reward" in text)


def _is_table_head(text: str) -> bool:
    return not any(char.isdigit() for char in text) and _TABLE_HEAD.search(text) is not None


def _loss(text: str) -> float | None:
    """Return the training loss of a line: the plain one where there is one, else the first."""
    first: float | None = None
    for found in _LOSS.finditer(text):
        name = found["name"]
        if _NOT_TRAINING.search(name) or _is_choice(text, found):
            continue
        value = float(found["value"])
        if _PLAIN.match(name):
            return value
        first = value if first is None else first
    return first


def _is_choice(text: str, found: re.Match[str]) -> bool:
    """Whether the value belongs to a word behind it: "loss 2x smaller", "loss 0 errors"."""
    return re.match(r"\s*(?:%|x\b|errors?\b|warnings?\b)", text[found.end() :]) is not None


def _value(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return float(found["value"]) if found else None
