"""The shape of events, checked where they come in: events.jsonl is in the hands of the users of the host.

What fits cannot end the loop of a run; what does not is not an event of ours, and is passed over.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

from launcher.rundir.document_shape import build_shape, find_misfit

_LARGEST_CODE = 1 << 31
_LATEST = 1e11  # seconds since 1970: beyond every clock, and below what arithmetic cannot bear
_LONGEST_GRACE_S = 86400.0


_ANY = build_shape(rank=int)
_OF_RANK = build_shape({"rank": int})
_EXIT = build_shape(rank=int, code=int)
_STOPPING = build_shape(why=str, grace_s=float)
_DTYPES = dict.fromkeys(("parameter_dtypes", "gradient_dtypes", "state_dtypes", "devices"), dict[str, int])
_FINITE = build_shape(dict.fromkeys(("loss", "gradients", "weights"), bool | None))
_SHAPES: dict[str, type[Any]] = {
    "rank": _OF_RANK,
    "state": _OF_RANK,
    "script_exit": _OF_RANK,
    "exception": build_shape({"rank": int}, type=str, message=str, location=str, tail=tuple[str, ...]),
    "rank_exit": _EXIT,
    "launcher_exit": _EXIT,
    "stopping": _STOPPING,
    "hung": _STOPPING,
    "idle": build_shape(not_null={"seconds": 0.0}, timeout_s=float),
    "guard": build_shape(
        {"rank": int},
        not_null={"message": "", "fix": ""},
        code=str,
        step=int,
        parameters=tuple[str, ...],
        parameters_total=int,
    ),
    "guard_facts": build_shape(
        {"rank": int},
        gpu=str,
        dtypes=dict[str, int],
        mixed_precision=str,
        scaler=bool,
        versions=dict[str, str],
    ),
    "rehearsal": build_shape(
        {"rank": int, **_DTYPES, "finite": _FINITE},
        not_null={"performed": 0, "skipped": 0},
        trainable=int,
        without_gradient=tuple[str, ...],
        events=dict[str, float],
        losses=tuple[float | str, ...],
        mixed_precision=str,
        scale=float,
        gpu=str,
        memory=dict[str, float | None],
        step_s=tuple[float, ...],
        stepping=tuple[float, float],
        start_s=float,
        total_steps=int,
        samples_per_step=float,
        samples_per_step_here=float,
    ),
    "deep": build_shape({"rank": int, "kind": str, "step": str}),
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
    return find_misfit(_SHAPES.get(name, _ANY), event) or _out_of_bounds(event)


def _out_of_bounds(event: Mapping[str, Any]) -> str:
    for name, largest in (("code", _LARGEST_CODE), ("grace_s", _LONGEST_GRACE_S)):
        value = event.get(name)
        if isinstance(value, int | float) and not -largest < value <= largest:
            return f"$.{name}: {value!r} is out of bounds"
    grace = event.get("grace_s")
    return "$.grace_s is negative" if isinstance(grace, int | float) and grace < 0 else ""
