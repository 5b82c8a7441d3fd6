"""torch without its compiler, for trainings that compile nothing.

The first optimizer, a process group and DistributedDataParallel import torch._dynamo, to tell it that they
are not to be compiled. That import takes as long as torch's own. Other names of it are an AttributeError.
Meta functions of operators, which only it and its fake tensors call, are a quarter of torch's own import.
"""

import importlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any


class OptimizedModule:
    """What torch.compile returns: accelerate looks whether a model is one."""


def disable(function: Callable[..., Any] | None = None, *_: object, **__: object) -> Callable[..., Any]:
    """Return the function, or without one a decorator that does: nothing compiles it."""
    return disable if function is None else function


def graph_break() -> None:
    """Break no graph."""


def turn_on(_: ModuleType) -> None:
    """Stand in for torch._dynamo, right after torch._compile was imported."""
    found: Any = ModuleType("torch._dynamo")
    found.disable = found.assume_constant_result = found.allow_in_graph = disable
    found.graph_break = graph_break
    found.eval_frame = SimpleNamespace(OptimizedModule=OptimizedModule)
    found.utils = SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer")
    found.trace_rules = SimpleNamespace(
        LEGACY_MOD_INLINELIST=set(),
        get_legacy_mod_inlinelist=SimpleNamespace(cache_clear=lambda: None),
        clear_lru_cache=lambda: None,
    )
    traced: Any = ModuleType("torch._dynamo._trace_wrapped_higher_order_op")
    traced.TransformGetItemToIndex = nullcontext  # transformers.masking_utils imports it
    for module in (found, traced, ModuleType("torch._meta_registrations")):
        sys.modules.setdefault(module.__name__, module)
    _set_generators_up()


def _set_generators_up() -> None:
    """Do what is more than a meta function among what torch._meta_registrations imports."""
    set_metaclass = getattr(
        sys.modules["torch._C"], "_set_generator_metaclass", None
    )  # newer than the lowest torch
    if set_metaclass is None:
        return
    try:
        metaclass = importlib.import_module("torch._custom_class_base").CustomClassBaseMeta
    except ImportError:  # before torch 2.14, whose warning of the old name would be in every log
        metaclass = importlib.import_module("torch._opaque_base").OpaqueBaseMeta
    set_metaclass(metaclass)
