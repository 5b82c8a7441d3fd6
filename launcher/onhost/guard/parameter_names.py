"""Names of parameters; slow to compute, so only for reports."""

import contextlib
import gc
from typing import Any, Iterable, Sequence

MAX_NAMES = 8

_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def list_names(torch: Any, wanted: Sequence[Any], optimizers: Iterable[Any]) -> list[str]:
    """Return each parameter's name in the outermost module, else its name or position in its optimizer."""
    names: dict[int, str] = {}
    with contextlib.suppress(Exception):
        names = _names_in_modules(torch, {id(p) for p in wanted})
    for optimizer in list(optimizers):
        for number, group in enumerate(optimizer.param_groups):
            own = group.get("param_names") or []
            for index, p in enumerate(group["params"]):
                fallback = own[index] if index < len(own) else "group %d, parameter %d" % (number, index)
                names.setdefault(id(p), fallback)
    return [names.get(id(p), "?") for p in wanted]


def _names_in_modules(torch: Any, wanted: set[int]) -> dict[int, str]:
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    names: dict[int, str] = {}
    for module in modules:
        if id(module) in inner:
            continue
        for name, p in module.named_parameters():
            plain = name.removeprefix("module.")
            for wrapper in _WRAPPERS:
                plain = plain.replace(wrapper, "")
            if id(p) in wanted and len(plain) > len(names.get(id(p), "")):
                names[id(p)] = plain
    return names
