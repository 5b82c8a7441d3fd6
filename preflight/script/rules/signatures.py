"""Rule V303: calls of torch.amp that its signatures refuse."""

from collections.abc import Iterator

from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Const, Device, Dtype, OneOf, RankValue, Value
from preflight.script.values.operations import as_text, list_values

_CONTEXT = ("enabled", "dtype", "cache_enabled")
_SCALER = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


@rule("V303", "autocast made", "scaler")
def refused_arguments(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Autocast or GradScaler is called with arguments that torch refuses.

    torch.autocast takes the kind of device first, as a string: no device, no dtype, and not nothing. What is
    in torch.cuda.amp takes no device at all. Each raises a TypeError or a ValueError at the first use.
    Source: torch/amp/autocast_mode.py, torch/cuda/amp; each reproduced with torch 2.13.
    """
    call, of_cuda = event.call, ".cuda." in event.what or ".cpu." in event.what
    if call is None or call.open or not event.what.startswith("torch.") or ".fsdp." in event.what:
        return
    if isinstance(it.evaluate(call.node.func), OneOf):
        return  # by the version of torch, and so are its arguments
    what, scales = event.what.removeprefix("torch."), event.name == "scaler"
    known = (
        *(() if of_cuda else ("device" if scales else "device_type",)),
        *(_SCALER if scales else _CONTEXT),
    )
    for word in call.kwargs:
        if word not in known and word not in call.maybe:
            from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

            near = "".join(f"{name}= in place of it, or " for name in get_close_matches(word, known, 1))
            moved = word.startswith("device") and of_cuda
            fix = f"torch.amp.{what.rpartition('.')[2]}" if moved else f"{near}remove {word}="
            yield RuleHit(call.get_place(word), f"{what} has no argument {word}", fix, Level.ERROR)
            return
    given = call.get(known[0], 0)
    if scales:
        if of_cuda and as_text(given):
            message = f"{what} takes the first scale first, and this is a string"
            yield RuleHit(call.place, message, "torch.amp.GradScaler, which takes a device", Level.ERROR)
    elif not of_cuda and given is None:
        message = f"{what} without the kind of device that it needs"
        yield RuleHit(call.place, message, 'torch.autocast("cuda", ...)', Level.ERROR)
    elif not of_cuda and given is not None and all(map(_is_no_text, list_values(given))):
        message = f"{what} takes the kind of device as a string, and this is none"
        yield RuleHit(call.place, message, 'device.type, or the string "cuda"', Level.ERROR)


def _is_no_text(value: Value) -> bool:
    if isinstance(value, Device):
        return not value.is_text  # torch takes the number behind the kind, too
    return isinstance(value, (Dtype, OneOf, RankValue)) or (
        isinstance(value, Const) and as_text(value) is None
    )
