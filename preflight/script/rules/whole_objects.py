"""Rule C504: what is saved whole, and read as weights alone."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Element, ExternalName, Map, Ref, Value
from preflight.script.values.operations import as_text

_KINDS = {
    "model": "a model",
    "optimizer": "an optimizer",
    "scheduler": "a scheduler",
    "namespace": "a Namespace",
}
"""Things whose class torch.load() does not build; an object of the script's own is one too."""
_ALLOWS = re.compile(r"safe_globals|NO_WEIGHTS_ONLY_LOAD|torch\.load *= |def torch_load|\bsetattr\(torch\b")


@dataclass(frozen=True, slots=True)
class _File:
    """Note of where a file is read, or what is saved into it: "" for weights and numbers alone."""

    path: str
    within: int | None  # the object or function of a computed path, None of one that is the same everywhere
    saved: str | None = None  # None: it is read, and nothing says weights_only=


@rule("C504", "write", "early write", "weights only", "end")
def whole_object_read_as_weights(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A model or another object is saved whole, and torch.load() reads weights alone.

    From torch 2.6 on torch.load() has weights_only=True, and builds tensors, numbers, texts and collections
    of them: "Weights only load failed". A model, an optimizer, a scheduler, the Namespace of argparse and
    objects of the script's own classes are none of these.
    Source: torch.serialization's documentation; each reproduced with torch 2.13.
    """
    call, newer = event.call, it.target.is_at_least("torch", 2, 6)
    if newer is False:
        return
    if event.name == "end":
        yield from _unlike(it, Level.ERROR if newer else Level.WARNING)
        return
    if call is None:
        return
    reads = event.name == "weights only"
    if not reads and (event.what != "file" or len(call.node.args) < 2 or not _is_torch_save(it, call.node)):
        return
    node = call.node.args[not reads] if call.node.args else None
    if node is not None:
        known = as_text(event.values["path"])
        owner = it.evaluate(node.value) if isinstance(node, ast.Attribute) and not known else None
        shared = known or isinstance(node, ast.Attribute) or not it.stack
        within = owner.id if isinstance(owner, Ref) else None if shared else it.stack[-1]
        plain = reads and not event.what  # weights_only=False beside it: in a handler, for a version
        saved = None if plain else "" if reads else _whole(it, call.args[0])
        name, line = unparse(node), node.lineno
        given = [each for each in it.list_nodes(ast.Assign) if name in map(unparse, each.targets)]
        times = sum(each.lineno < line for each in given)  # of a path that is given anew
        it.note(_File(known or f"{name} {times}", within, saved), event.place)


def _is_torch_save(it: Interpreter, node: ast.Call) -> bool:
    return it.evaluate(node.func) == ExternalName("torch.save")


def _whole(it: Interpreter, value: Value) -> str:
    """Return what of a value torch.load() does not build, "" where none is known."""
    for item in [value, *(each for _, each in value.items)] if isinstance(value, Map) else [value]:
        thing = it.thing(item) if isinstance(item, (Ref, Element)) else None
        part = isinstance(item, Element) and item.what != "module"
        if thing is not None and not part and (thing.kind in _KINDS or thing.kind == "instance"):
            return _KINDS.get(thing.kind, "an object of a class of the script")
    return ""


def _unlike(it: Interpreter, level: Level) -> Iterator[RuleHit]:
    files = [key for key in it.notes if isinstance(key, _File)]
    for read in (each for each in files if each.saved is None):
        alike = [each for each in files if (each.path, each.within) == (read.path, read.within)]
        saved = [each for each in alike if each.saved is not None]
        if saved and all(each.saved for each in saved) and not it.sources.mention(_ALLOWS):
            message = (
                f"{saved[0].saved} is in this file, and torch.load() reads weights alone from torch 2.6 on"
            )
            fix = "weights_only=False for a file of your own, or save state_dict() of it"
            for place in it.notes[read]:
                yield RuleHit(place, message, fix, level, tuple(it.notes[saved[0]][:1]))
