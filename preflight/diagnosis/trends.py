"""When a series of losses, gradient norms or loss scales has gone bad, and what of it is normal. Pure."""

import math
from collections.abc import Callable, Sequence
from itertools import takewhile

from preflight import regex as re
from preflight.diagnosis.result import COLLAPSE_CODE, NAN_CODE, ZERO_CODE, Confidence
from preflight.diagnosis.series import Point
from preflight.frozen import dataclass

# fp16 scaling looks for its scale at the start, and now and then a step is skipped: that is not a failure.
_NORMS_IN_A_ROW = 3
_SOUND = 10  # steps whose norm was sound before one that is not: no search for a scale
_ZEROS_IN_A_ROW = 3
_LOSSES = 3
_ROUNDED = re.compile(r"loss\b\W{1,5}0\.00+(?!\d)", re.IGNORECASE)
"""A loss that is printed with so many places may be small, not 0."""
_SHARE = 0.05
_DROP_FROM = 0.05  # a loss that was above this and is printed as 0.0 in the next step has not converged to it
_SCALE_FLOOR = 1e-3
_LOW_SCALE = 16  # three steps skipped in a row at it: a search from 2**16 has long found its own
_SKIPPED = 40  # steps skipped in a row that no search for a scale needs: 2**40 is more than where it starts
_OF_BEST = re.compile(r"\bbest[- ]so[- ]far\b")  # of a search, which continues with it
_REDUCED = re.compile(r"reducing (?:loss scale )?to (\d[\d.]*)")
_ATTEMPTED = re.compile(r"[Aa]ttempted loss scale: (\d[\d.]*\d|\d)")
_COLLAPSED = "the loss scale collapsed: every step overflows and is skipped"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A series that has gone bad: what it shows, how sure that is, and the steps that prove it."""

    code: str
    description: str
    points: tuple[Point, ...]
    confidence: Confidence = "certain"


def detect_anomalies(points: Sequence[Point]) -> Anomaly | None:
    """Return what is bad about the series, None when it trains (or may)."""
    for rule in (_zero_with_nan, _loss_nan, _norms_stay_nan, _scale_collapsed, _loss_stuck_at_zero):
        bad = rule(points)
        if bad is not None:
            return bad
    return None


def is_bad(value: float | None) -> bool:
    """Whether a value is NaN or infinite; a missing one is not."""
    return value is not None and not math.isfinite(value)


def _zero_with_nan(points: Sequence[Point]) -> Anomaly | None:
    """Trainer logs the average of the losses that are not NaN: 0.0 when none is left."""
    hits = tuple(point for point in points if point.loss == 0 and is_bad(point.norm))
    pairs = [point for point in points if point.loss is not None and point.norm is not None]
    if not hits or not (hits[-1] is pairs[-1] or (len(hits) > 1 and _count(hits) >= _SHARE * _count(pairs))):
        return None
    return Anomaly(
        ZERO_CODE, "the loss is logged as 0.0 while the gradient norm is NaN: every step's loss was NaN", hits
    )


def _loss_nan(points: Sequence[Point]) -> Anomaly | None:
    losses = [point for point in points if point.loss is not None and not _OF_BEST.search(point.line.text)]
    hits = tuple(point for point in losses if is_bad(point.loss))
    if not hits:
        return None
    ends_bad = hits[-1] is losses[-1]
    used = [point for point in hits if "skip" not in point.line.text.lower()]
    often = len(used) >= 2 and _count(used) >= _SHARE * _count(losses)
    stays = len(_last_while(lambda point: is_bad(point.loss), losses)) >= _LOSSES
    if ends_bad or (often and not _recovered(losses)):
        return Anomaly(
            NAN_CODE, "the loss is NaN or infinite", hits, "certain" if often or stays else "likely"
        )
    return None


def _count(points: Sequence[Point]) -> int:
    """Return how many steps of the log some points stand for."""
    return sum(point.line.stands_for for point in points)


def _recovered(losses: Sequence[Point]) -> bool:
    """Whether only the search for a loss scale at the start had bad losses: all since are sound, for long."""
    bad = [index for index, point in enumerate(losses) if is_bad(point.loss)]
    sound = _count(losses[bad[-1] + 1 :])
    return len(bad) == bad[-1] + 1 - bad[0] and sound >= 3 * len(bad) and bad[0] <= 2


def _norms_stay_nan(points: Sequence[Point]) -> Anomaly | None:
    norms = [point for point in points if point.norm is not None]
    tail = _last_while(lambda point: is_bad(point.norm), norms)
    if len(tail) < _NORMS_IN_A_ROW:
        return _norm_nan_at_last(points, norms)
    what = "the gradient norm stays NaN or infinite: no step changes the weights for the better"
    return Anomaly(NAN_CODE, what, tail, "likely" if _still_falls(points) else "certain")


def _norm_nan_at_last(points: Sequence[Point], norms: Sequence[Point]) -> Anomaly | None:
    """Return the last norm if it alone is NaN: it ruins the weights, unless a loss scale skipped the step."""
    scaled = any(point.scale is not None or point.overflow for point in points)
    if scaled or len(norms) <= _SOUND or any(is_bad(point.norm) for point in norms[:-1]):
        return None
    last = norms[-1]
    told_alike = (last.loss is None) == (norms[-2].loss is None)  # and not in a sentence
    if last is not points[-1] or not told_alike or not math.isnan(last.norm or 0):
        return None
    what = "the last gradient norm is NaN: with a loss scale that step is skipped, without one every weight is NaN behind it"
    return Anomaly(NAN_CODE, what, (last,), "possible")


def _still_falls(points: Sequence[Point]) -> bool:
    """Whether the loss is sound to its end and lower than at its start: the weights still improve."""
    losses = [point.loss for point in points if point.loss is not None]
    third = len(losses) // 3
    if third == 0 or not all(map(math.isfinite, losses)):
        return False
    return sum(losses[-third:]) < sum(losses[:third])


def _last_while(holds: Callable[[Point], bool], points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the last points, for all of which something holds."""
    return tuple(takewhile(holds, reversed(points)))[::-1]


def _scale_collapsed(points: Sequence[Point]) -> Anomaly | None:
    skipped = tuple(_skipped_at_the_end(points))
    steps = _count([point for point in points if point.overflow or point.loss is not None])
    if (
        _count(skipped) >= max(_SKIPPED, _SHARE * steps)
        or [p for p in skipped[-2:] if p.scale is not None and p.scale <= 1][1:]
    ):
        return Anomaly(COLLAPSE_CODE, _COLLAPSED, skipped[-5:])
    if len([p for p in skipped[-3:] if p.scale is not None and p.scale <= _LOW_SCALE]) == 3:
        return Anomaly(COLLAPSE_CODE, _COLLAPSED, skipped[-5:], "likely")
    scales = [point for point in points if point.scale is not None and not point.overflow]
    tail = [point for point in scales[-3:] if point.scale is not None and point.scale < _SCALE_FLOOR]
    if not tail or len(tail) < min(3, len(scales)) or len(scales) < 2:
        return None
    small = any(point.scale for point in tail)  # else it is printed without its fraction
    return Anomaly(COLLAPSE_CODE, _COLLAPSED, tuple(tail), "certain" if small else "likely")


def _skipped_at_the_end(points: Sequence[Point]) -> list[Point]:
    """Return the steps skipped for an overflow since the last one that was made with a sound loss.

    A scale rises only after many steps without an overflow, printed or not: between a lower one and a later
    higher one such steps were made.
    """
    found: list[Point] = []
    for point in reversed(points):
        if point.overflow:
            if found and _lower(point, found[-1]):
                break
            found.append(point)
        elif point.loss is not None and math.isfinite(point.loss):
            break
    return found[::-1]


def _lower(point: Point, later: Point) -> bool:
    """Whether a skipped step left a lower scale than a later one began with."""
    left = _REDUCED.search(point.line.text)
    began = _ATTEMPTED.search(later.line.text)
    return left is not None and began is not None and float(left[1]) < float(began[1])


def _loss_stuck_at_zero(points: Sequence[Point]) -> Anomaly | None:
    losses = [point for point in points if point.loss is not None]
    zeros = _last_while(lambda point: point.loss == 0 and not point.rewarded and not point.norm, losses)
    if len(zeros) < _ZEROS_IN_A_ROW:
        return None
    before = losses[-len(zeros) - 1].loss if len(zeros) < len(losses) else None
    if before is not None and (not math.isfinite(before) or before < _DROP_FROM):
        return None
    if before is None and all(_ROUNDED.search(point.line.text) for point in zeros):
        return None
    return Anomaly(
        ZERO_CODE,
        "the loss is exactly 0.0 step after step: NaN losses that the trainer leaves out of its average, or no"
        " token of the data is trained on (every label is -100)",
        zeros,
        "likely",
    )
