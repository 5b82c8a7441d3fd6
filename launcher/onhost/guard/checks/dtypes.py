"""Dtypes of trainable parameters (G1), of their gradients (G2) and of Adam's state for them (G3)."""

import time
from typing import Any, Iterator

from ..reporter import FIX_FP16, Violation
from ..sampling_policy import FIRST_SAMPLES
from ..tensors import format_value, is_fused
from ..training_state import Step

EPS_LOST_IN_FP16 = 2.0**-25
"""Largest eps that rounds to zero in fp16.

Adam then divides by zero wherever its second moment is zero too.
"""

FIX_CAST = (
    "do not cast the module while it trains: cast the inputs, or use autocast; look at what evaluation, demo"
    " or generation code does with .to(dtype), .half() or .bfloat16() just before this step"
)


def low_precision_parameters(step: Step) -> Iterator[Violation]:
    """Report trainable parameters in half precision (G1)."""
    torch = step.training.torch
    trainable = step.list_trainable()
    half = [p for p in trainable if p.dtype is torch.float16]
    if half:
        kills = _divides_by_zero(step)
        text = "%d of %d trainable parameter tensors are float16 and %s trains them in pure fp16"
        text = text % (len(half), len(trainable), type(step.optimizer).__name__)
        if kills:
            text += ": its second moment and eps round to zero in fp16, so the weights become NaN in step 1"
        else:
            text += ": small updates and small moments round to zero"
        yield Violation("G1", text, FIX_FP16, kills, half)
    coarse = [p for p in trainable if p.dtype is torch.bfloat16]
    if coarse:
        text = "%d of %d trainable parameter tensors are bfloat16: updates below 1/256 of a weight are lost"
        fix = "train in float32 with bf16 mixed precision, if the memory suffices"
        yield Violation("G1", text % (len(coarse), len(trainable)), fix, parameters=coarse)


def _divides_by_zero(step: Step) -> bool:
    """Return whether the first step in fp16 is x/0; fused kernels compute in float32."""
    if not step.watched.divides_by_eps or is_fused(step.optimizer):
        return False
    smallest: float = min(group.get("eps", 1.0) for group in step.optimizer.param_groups)
    return smallest <= EPS_LOST_IN_FP16


def mismatched_dtypes(step: Step) -> Iterator[Violation]:
    """Compare parameters with their gradients (G2) and with Adam's state (G3), at every step.

    All of them in the first steps and as time allows; the first and the last of each group always, since who
    casts a module casts all of it.
    """
    budget = step.watched.dtypes_budget
    is_due = step.watched.fired <= FIRST_SAMPLES or budget.allows()
    if not is_due and not any(_compare(step, complete=False)):
        return
    began = time.perf_counter()
    odd, cast = _compare(step, complete=True)
    budget.charge(began)
    yield from (_odd_gradient(p, p.grad.dtype) for p in odd)
    if cast:
        yield _cast_since(step, cast)


def _compare(step: Step, *, complete: bool) -> tuple[list[Any], list[Any]]:
    """Return the parameters whose gradient has another dtype, and those whose Adam state has."""
    odd, cast = [], []
    state = step.optimizer.state
    is_adam = step.watched.is_adam
    for group in step.optimizer.param_groups:
        params = group["params"]
        for p in params if complete or len(params) <= 2 else (params[0], params[-1]):
            gradient = p.grad
            if gradient is None:
                continue
            dtype = gradient.dtype
            if dtype is not p.dtype:
                odd.append(p)
            if is_adam:
                moments = state.get(p)
                average = moments.get("exp_avg") if moments else None
                if average is not None and average.dtype is not dtype:
                    cast.append(p)
    return odd, cast


def _odd_gradient(p: Any, dtype: Any) -> Violation:
    text = "a %s parameter has a %s gradient" % (format_value(p.dtype), format_value(dtype))
    return Violation("G2", text, "let autograd make the gradient; assign to .grad, not .data", parameters=[p])


def _cast_since(step: Step, cast: list[Any]) -> Violation:
    now, before = format_value(cast[0].dtype), format_value(step.optimizer.state[cast[0]]["exp_avg"].dtype)
    text = (
        "%d trainable parameter tensors were cast from %s to %s between step %d and step %d; Adam's state"
        " is still %s, and its step would fail%s"
    )
    fused = is_fused(step.optimizer)
    torchs = {"float32": "float", "float64": "double", "float16": "c10::Half"}.get(before, before)
    error = ' with "expected dtype %s for `end`"' % torchs
    if fused:
        error = ": the fused kernel wants parameters, gradients and state of one dtype"
    text = text % (len(cast), before, now, step.number - 1, step.number, before, error)
    promotes_silently = _version(step.training.torch) < (2, 1) and not fused
    return Violation("G3", text, FIX_CAST, not promotes_silently, cast)


def _version(torch: Any) -> tuple[int, int]:
    """Return (2, 13) for 2.13.0+cpu."""
    major, minor = str(torch.__version__).split(".")[:2]
    return int(major), int(minor)
