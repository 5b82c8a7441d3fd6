"""The objects that a script makes, by what is known of them."""

from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.values import Value
from preflight.script.values.constants import NONE
from preflight.script.values.operations import join

MODEL_FACTS = frozenset(
    {
        *("dtype", "adapters", "trainable", "upcast", "partly", "mixed", "quantized", "device_map"),
        *("optimized", "empty"),
        *("recast", "rounded", "stepped", "touched", "role", "accelerator", "peft", "forced", "sharded"),
    }
)
"""Attributes of a model that reading keeps; one that the script sets by such a name is none of them."""


def rename_attribute(name: str) -> str:
    """Return under which name a model holds what the script calls `self.dtype` and the like."""
    return f"own {name}" if name in MODEL_FACTS else name


@dataclass(frozen=True, slots=True)
class HeapObject:
    """An object the script made: a model, an optimizer, an Accelerator... with what is known of it.

    `kind` is one of the words of preflight.script.libraries.call_table; `attrs` are its known attributes.
    """

    kind: str
    place: CodeLocation
    attrs: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))

    def get(self, name: str, default: Value = NONE) -> Value:
        """Return an attribute."""
        return self.attrs.get(name, default)

    def with_changes(self, /, **changes: Value) -> "HeapObject":
        """Return the thing with attributes changed."""
        return HeapObject(self.kind, self.place, MappingProxyType({**self.attrs, **changes}))


def join_things(
    one: HeapObject, other: HeapObject, meet: Callable[[Value, Value], Value] | None
) -> HeapObject:
    """Return what is known of an object that was treated differently on two paths."""
    if one is other or (meet is None and one == other):
        return one
    pairs = {name: (one.get(name), other.get(name)) for name in {**one.attrs, **other.attrs}}
    joined = {name: meet(*pair) if meet else join(pair) for name, pair in pairs.items()}
    return HeapObject(one.kind, one.place, MappingProxyType(joined))
