"""The shape of events, checked where they come in: events.jsonl is in the hands of the users of the host.

What fits cannot end the loop of a run; what does not is not an event of ours, and is passed over.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

from preflight.errors import MalformedFacts
from preflight.facts.json_codec import decode
from preflight.frozen import dataclass

_LARGEST_CODE = 1 << 31
_LATEST = 1e11
"""Seconds since 1970: far beyond every clock, and far below what arithmetic with times cannot bear."""
_LONGEST_GRACE_S = 86400.0


@dataclass(frozen=True, slots=True)
class _Any:
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class _OfRank:
    rank: int


@dataclass(frozen=True, slots=True)
class _Exit:
    rank: int | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True)
class _Exception:
    rank: int
    type: str | None = None
    message: str | None = None
    location: str | None = None
    tail: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Stopping:
    why: str | None = None
    grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Quiet:
    seconds: float = 0.0
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Guard:
    rank: int
    message: str = ""
    code: str | None = None
    step: int | None = None
    parameters: tuple[str, ...] | None = None
    parameters_total: int | None = None
    fix: str = ""


@dataclass(frozen=True, slots=True)
class _GuardFacts:
    rank: int
    gpu: str | None = None
    dtypes: dict[str, int] | None = None
    mixed_precision: str | None = None
    scaler: bool | None = None
    versions: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Finite:
    loss: bool | None
    gradients: bool | None
    weights: bool | None


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    rank: int
    parameter_dtypes: dict[str, int]
    gradient_dtypes: dict[str, int]
    state_dtypes: dict[str, int]
    devices: dict[str, int]
    finite: _Finite
    performed: int = 0
    skipped: int = 0
    trainable: int | None = None
    without_gradient: tuple[str, ...] | None = None
    events: dict[str, float] | None = None
    losses: tuple[float | str, ...] | None = None
    mixed_precision: str | None = None
    scale: float | None = None
    gpu: str | None = None
    memory: dict[str, float | None] | None = None
    step_s: tuple[float, ...] | None = None
    stepping: tuple[float, float] | None = None
    start_s: float | None = None
    total_steps: int | None = None
    samples_per_step: float | None = None
    samples_per_step_here: float | None = None


@dataclass(frozen=True, slots=True)
class _Deep:
    rank: int
    kind: str
    step: str


_SHAPES: dict[str, type[Any]] = {
    "rank": _OfRank,
    "state": _OfRank,
    "script_exit": _OfRank,
    "exception": _Exception,
    "rank_exit": _Exit,
    "launcher_exit": _Exit,
    "stopping": _Stopping,
    "hung": _Stopping,
    "idle": _Quiet,
    "guard": _Guard,
    "guard_facts": _GuardFacts,
    "rehearsal": _Rehearsal,
    "deep": _Deep,
}


def is_time(value: object) -> TypeGuard[float]:
    """Return whether a value is a time in seconds, by whichever clock of a host."""
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < _LATEST


def validate_event(event: object) -> str:
    """Return what is wrong with a line of events.jsonl or usage.jsonl, "" where it fits."""
    if not isinstance(event, dict) or not isinstance(name := event.get("event"), str):
        return "not an event"
    if not is_time(event.get("t")):
        return "it has no time"
    try:
        decode(_SHAPES.get(name, _Any), event)
    except MalformedFacts as misfit:
        return misfit.message
    return _out_of_bounds(event)


def _out_of_bounds(event: Mapping[str, Any]) -> str:
    for name, largest in (("code", _LARGEST_CODE), ("grace_s", _LONGEST_GRACE_S)):
        value = event.get(name)
        if isinstance(value, int | float) and not -largest < value <= largest:
            return f"$.{name}: {value!r} is out of bounds"
    grace = event.get("grace_s")
    return "$.grace_s is negative" if isinstance(grace, int | float) and grace < 0 else ""
