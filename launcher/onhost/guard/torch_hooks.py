"""Hooks into torch: optimizer steps, GradScaler, clip_grad_norm_ and backward.

Where the guard may not run (`safety`), each function behaves as without the guard.
"""

import functools
import sys
import time
from typing import Any, Callable

from .checks.grad_scaler import ScalerMonitor
from .checks.loss_and_norm import LossMonitor
from .safe_call import SafeCaller
from .sampling_policy import SamplingPolicy
from .training_state import TrainingState

Look = Callable[[Any, Any], None]  # at the arguments of a call, by position and by name


def hook_steps(torch: Any, before: Callable[[Any, Any, Any], None], after: Callable[[Any], None]) -> None:
    """Call the guard before and after every step of every optimizer."""
    optim = sys.modules["torch.optim.optimizer"]  # the attribute of that name is gone

    def pre_hook(optimizer: Any, args: Any, kwargs: Any) -> None:  # no bound methods: torch sets attributes
        before(optimizer, args, kwargs)

    def post_hook(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        after(optimizer)

    optim.register_optimizer_step_pre_hook(_hidden_from_compiler(torch, pre_hook))
    optim.register_optimizer_step_post_hook(_hidden_from_compiler(torch, post_hook))


def _hidden_from_compiler(torch: Any, function: Callable[..., None]) -> Callable[..., None]:
    """Return a hook, hidden from graphs only where a compiler is at work: to hide it costs more than it."""
    hide = getattr(torch, "_disable_dynamo", None)
    if hide is None:
        return function
    hidden: Callable[..., None] = hide(function)
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)  # noqa: SLF001
    compiler = getattr(frames, "get_eval_frame_callback", None)  # torch/csrc/dynamo/eval_frame.c
    is_traced = getattr(getattr(torch, "compiler", None), "is_dynamo_compiling", None)
    if compiler is None or is_traced is None:
        return hidden

    def hook(*args: Any) -> None:
        if is_traced() or compiler() is not None:  # a tracer knows the first, and never sees the second
            hidden(*args)
        else:
            function(*args)

    return hook


def hook_scalers(
    torch: Any, safety: SafeCaller, training: TrainingState, scaling: ScalerMonitor, notes: LossMonitor
) -> None:
    """Report the values that GradScaler unscales and scales, the steps that it skips, and its scale."""
    module = getattr(getattr(torch, "amp", None), "grad_scaler", None)
    scaler = getattr(module, "GradScaler", None) or torch.cuda.amp.GradScaler

    def before_unscale(args: Any, kwargs: Any) -> None:
        scaling.check_unscaling(args[0], args[1] if len(args) > 1 else kwargs["optimizer"])

    def after_update(args: Any, _kwargs: Any) -> None:
        scaling.read_scale(args[0])

    def before_scale(args: Any, kwargs: Any) -> None:
        if getattr(args[0], "_enabled", False):
            training.has_scaler = True
            notes.take_unscaled(args[1] if len(args) > 1 else kwargs["outputs"])

    patch_method(scaler, "_unscale_grads_", safety, before=before_unscale)
    _listen_to_scaled_steps(scaler, safety, training, scaling)
    patch_method(scaler, "update", safety, after=after_update)
    patch_method(scaler, "scale", safety, before=before_scale)


def _listen_to_scaled_steps(
    kind: Any, safety: SafeCaller, training: TrainingState, scaling: ScalerMonitor
) -> None:
    original = kind.step

    def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not safety.is_active() or not getattr(scaler, "_enabled", False):
            return original(scaler, optimizer, *args, **kwargs)
        training.has_scaler = True
        before = training.fired
        result = original(scaler, optimizer, *args, **kwargs)
        safety.call("count skipped steps", scaling.count_step, optimizer, training.fired == before)
        return result

    kind.step = functools.update_wrapper(step, original)


def hook_clipping(torch: Any, safety: SafeCaller, notes: LossMonitor, policy: SamplingPolicy) -> None:
    """Report the norm that clip_grad_norm_ returns."""
    home: Any = sys.modules["torch.nn.utils.clip_grad"]
    original = home.clip_grad_norm_

    def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
        norm = original(*args, **kwargs)
        if not policy.quiet and safety.is_active():
            began = time.perf_counter()
            safety.call("note the gradient norm", notes.take_norm, norm)
            policy.charge(began)
        return norm

    wrapper = functools.update_wrapper(clip_grad_norm_, original)
    home.clip_grad_norm_ = torch.nn.utils.clip_grad_norm_ = wrapper


def hook_backward(torch: Any, safety: SafeCaller, notes: LossMonitor, policy: SamplingPolicy) -> None:
    """Report the tensor of each Tensor.backward."""
    original = torch.Tensor.backward

    def backward(loss: Any, *args: Any, **kwargs: Any) -> Any:
        if not policy.quiet and safety.is_active():
            began = time.perf_counter()
            safety.call("note the loss", notes.take_backward, loss)
            policy.charge(began)
        return original(loss, *args, **kwargs)

    torch.Tensor.backward = functools.update_wrapper(backward, original)


def patch_method(
    owner: Any, name: str, safety: SafeCaller, before: Look | None = None, after: Look | None = None
) -> None:
    """Wrap a method so that the guard is called before or after each call of it."""
    original = getattr(owner, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not safety.is_active():
            return original(*args, **kwargs)
        if before is not None:
            safety.call("look before " + name, before, args, kwargs)
        result = original(*args, **kwargs)
        if after is not None:
            safety.call("look after " + name, after, args, kwargs)
        return result

    setattr(owner, name, functools.update_wrapper(wrapper, original))
