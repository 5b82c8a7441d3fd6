"""Rule R415: layers of a model in DistributedDataParallel that no code of the script uses."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import FALSE, NONE, Class, HeapObject, Ref, text_of
from preflight.script.libraries.casts import members
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import all_names
from preflight.script.syntax_trees import ByKind

_LEARNS = re.compile(
    r"torch\.nn\.(?:Linear|Bilinear|Conv|LazyLinear|LazyConv|Embedding|LSTM|GRU|RNN|TransformerEncoderLayer"
    r"|TransformerDecoderLayer|MultiheadAttention|LayerNorm|GroupNorm|RMSNorm|BatchNorm|PReLU)"
)
"""Layers with weights that get a gradient where they are used."""
_SEES_UNUSED = re.compile(
    r"find_unused_parameters|static_graph|requires_grad|getattr\(|children\(\)|_modules\b|__dict__|vars\("
    r"|affine|add_module|exec\(|DistributedDataParallelKwargs|kwargs_handlers"
)
"""What lets DDP find what is not used, freezes it, or uses what it does not name."""


@rule("R415", "ddp", "prepare")
def layer_that_is_never_used(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A model in DistributedDataParallel makes a layer in its constructor that nothing ever uses.

    DDP waits for a gradient of each weight, and the second forward stops: "Expected to have finished
    reduction in the prior iteration before starting a new one". One rank alone trains. A layer that is meant
    to stay is found with find_unused_parameters=True, which costs a walk through the graph in each step.
    Source: torch.nn.parallel.DistributedDataParallel; reproduced on two gloo ranks with torch 2.13.
    """
    if it.target.processes == 1 or event.ref is None or (event.call and event.call.open):
        return
    if it.sources.mention(_SEES_UNUSED) or it.sources.unread():
        return
    parser = it.sources.parser
    used = {name for source in it.sources.files() for name in parser.find_by_kind(_used, source.tree)}
    for thing in _parts_of(it, event.ref):
        if not any("forward" in info.names for info in it.mro(_class(thing))):
            continue
        for name, value in thing.attrs.items():
            layer = it.thing(value) if isinstance(value, Ref) else None
            if layer is not None and name not in used and _is_made_for(it, layer, name):
                message = f"nothing uses self.{name}, and DistributedDataParallel waits for its gradient"
                fix = f"remove self.{name}, or find_unused_parameters=True"
                yield RuleHit(layer.place, message, fix, Level.WARNING, (event.place,))


def _parts_of(it: Interpreter, model: int) -> list[HeapObject]:
    """Return a model and its parts that are of classes of the script, also in lists."""
    found = {number: thing for number in members(it, model) if (thing := it.thing(number)) and _class(thing)}
    waiting = list(found.values())
    others = {
        number: thing for number, thing in it.state.heap.items() if thing.kind == "model" and _class(thing)
    }
    for part in waiting:  # which grows
        names = {
            name for info in it.mro(_class(part)) for name in it.sources.parser.find(all_names, info.node)
        }
        for number, thing in others.items():
            if number not in found and it.classes[_class(thing)].node.name in names:
                found[number] = thing
                waiting.append(thing)
    return waiting


def _class(thing: HeapObject) -> int:
    cls = thing.get("__class__")
    return cls.key if isinstance(cls, Class) else 0


def _is_made_for(it: Interpreter, layer: HeapObject, name: str) -> bool:
    """Whether a layer with weights is made where an attribute of self gets it, which alone has it then."""
    if not _LEARNS.match(text_of(layer.get("__name__")) or "") or layer.get("touched") not in (NONE, FALSE):
        return False
    source = it.sources.get(layer.place.path)
    return (
        source is not None
        and re.compile(rf"\s*self\.{name}\b[^=]*=\s*(?:\w+\.)*[A-Z]\w+\(").match(
            source.lines[layer.place.line - 1]
        )
        is not None
    )


def _used(kinds: ByKind) -> set[str]:
    """Return the attributes that code reads, and the words of its texts: `"audio_norm" in name`."""
    read = {node.attr for node in kinds.get(ast.Attribute, ()) if isinstance(node.ctx, ast.Load)}
    texts = (node.value for node in kinds.get(ast.Constant, ()) if isinstance(node.value, str))
    return read.union(word for text in texts for word in re.compile(r"\w+").findall(text))
