"""Loss and gradient norm as a running log prints them, and when they have gone bad. Pure."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from preflight.diagnosis.lines import Line

_NUMBER = r"(?P<{name}>[-+]?(?:nan|inf(?:inity)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?))"
# Not "val_loss", not "loss_scale"; an average in brackets behind the value is not read.
_LOSS = re.compile(
    r"(?<![\w.])(?:train[_/])?loss['\"]?\s*[:=]\s*['\"]?(?:tensor\()?" + _NUMBER.format(name="value"),
    re.IGNORECASE,
)
_NORM = re.compile(
    r"(?<![\w.])(?:train[_/])?grad[_ ]?norm['\"]?\s*[:=]\s*['\"]?(?:tensor\()?"
    + _NUMBER.format(name="value"),
    re.IGNORECASE,
)

# fp16 scaling looks for its scale at the start, and now and then a step is skipped: that is no failure.
_NORMS_IN_A_ROW = 3
_LOSSES = 2


@dataclass(frozen=True, slots=True)
class Bad:
    """A series that has gone bad: what it shows, and the lines that prove it."""

    what: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One logged step; a value that the line does not hold is None."""

    number: int
    loss: float | None
    norm: float | None


def read_points(lines: Sequence[Line]) -> tuple[Point, ...]:
    """Return the logged steps in order."""
    found: list[Point] = []
    for line in lines:
        if "loss" not in line.text.lower() and "norm" not in line.text.lower():
            continue
        loss, norm = _value(_LOSS, line.text), _value(_NORM, line.text)
        if loss is not None or norm is not None:
            found.append(Point(line.number, loss, norm))
    return tuple(found)


def judge(points: Sequence[Point]) -> Bad | None:
    """Return what is bad about the series, None when it trains (or may)."""
    for rule in (_zero_with_nan, _loss_nan, _norms_stay_nan):
        bad = rule(points)
        if bad is not None:
            return bad
    return None


def _value(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return float(found["value"]) if found else None


def _zero_with_nan(points: Sequence[Point]) -> Bad | None:
    """Trainer logs the average of the losses that are not NaN: 0.0 when none is left."""
    hits = [p.number for p in points if p.loss == 0 and p.norm is not None and not math.isfinite(p.norm)]
    if len(hits) < _LOSSES:
        return None
    return Bad(
        "the loss is logged as 0.0 while the gradient norm is NaN: every step's loss was NaN", tuple(hits)
    )


def _loss_nan(points: Sequence[Point]) -> Bad | None:
    losses = [point for point in points if point.loss is not None]
    hits = [point.number for point in losses if point.loss is not None and not math.isfinite(point.loss)]
    last_is_bad = bool(hits) and hits[-1] == losses[-1].number
    if len(hits) >= _LOSSES or last_is_bad:
        return Bad("the loss is NaN or infinite", tuple(hits))
    return None


def _norms_stay_nan(points: Sequence[Point]) -> Bad | None:
    norms = [point for point in points if point.norm is not None]
    tail: list[int] = []
    for point in reversed(norms):
        if point.norm is None or math.isfinite(point.norm):
            break
        tail.append(point.number)
    if len(tail) < _NORMS_IN_A_ROW:
        return None
    return Bad(
        "the gradient norm stays NaN or infinite: no step changes the weights for the better",
        tuple(reversed(tail)),
    )
