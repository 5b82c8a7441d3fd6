"""Rule R418: a layer without a use in what DistributedDataParallel wraps."""

import ast
from collections import Counter
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind
from preflight.script.values import Class, ExternalName, Func, Ref
from preflight.script.values.constants import FALSE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text

_WEIGHS = re.compile(
    r"torch\.nn\.(?:Linear|Bilinear|Conv|Embedding|LSTM|GRU|RNN|Transformer|Multihead|LayerNorm|GroupNorm)"
)
_WORD = re.compile(r"\w+")
_ALL_PARTS = re.compile(r"children\(|_modules\b|getattr\(|__dict__|\bvars\(|torch\.jit")
_EXPECTED = re.compile(r"requires_grad *= *False|requires_grad_\(|_set_static_graph|\.grad is None")


@rule("R418", "ddp", "backward", "scaled", "end")
def layer_without_a_use(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A module that DistributedDataParallel wraps has a layer that nothing uses.

    DDP waits for the gradients of all its parameters. The second forward stops: "Expected to have finished
    reduction in the prior iteration before starting a new one"; until then gradients that wait together with
    those of the layer are not exchanged. With find_unused_parameters=True DDP looks in each step.
    Source: torch.nn.parallel.DistributedDataParallel; reproduced on two gloo ranks with torch 2.13.
    """
    call = event.call
    if event.name == "ddp" and call and event.ref and it.target.processes != 1:
        func, found = it.evaluate(call.node.func), it.held_back.setdefault("R418", [])
        of_torch = isinstance(func, ExternalName) and func.name.startswith("torch.")
        asked = (call.get("find_unused_parameters", 6) or FALSE, call.get("static_graph") or FALSE)
        sure = of_torch and not call.open and set(asked) == {FALSE}
        for thing in filter(None, map(it.thing, list_parts(it, event.ref) if sure else ())):
            for place in _list_unused(it, thing):
                message = "nothing uses this layer, and DistributedDataParallel waits for its gradients"
                fix = "remove it, or DistributedDataParallel(..., find_unused_parameters=True)"
                found.append(RuleHit(place, message, fix, Level.WARNING, (event.place,)))
    elif event.name in ("backward", "scaled"):
        it.note("goes backward", event.place)
    elif event.name == "end" and it.notes.get("goes backward") and not it.sources.mention(_EXPECTED):
        yield from dict.fromkeys(it.held_back.get("R418", ()))


def _list_unused(it: Interpreter, thing: HeapObject) -> Iterator[CodeLocation]:
    """Yield where a module of the script gets a layer whose name the script has nowhere else."""
    cls, files = thing.get("__class__"), it.sources.files()
    infos = list(it.mro(cls.key)) if isinstance(cls, Class) and thing.get("touched") != TRUE else []
    bases = (base for info in infos for base in info.bases if not isinstance(base, Class))
    runs = any("forward" in info.names for info in infos)
    if not runs or any(base != ExternalName("torch.nn.Module") for base in bases):
        return
    for info in infos:
        made = info.names.get("__init__")
        lines = info.source.lines[info.node.lineno - 1 : info.node.end_lineno]
        known = isinstance(made, Func) and not _ALL_PARTS.search("\n".join(lines))
        body = it.functions[made.key].node.body if isinstance(made, Func) and known else ()
        for node in (each for each in body if isinstance(each, ast.Assign)) if isinstance(body, list) else ():
            layer = thing.get(name := getattr(node.targets[0], "attr", ""))
            layers = list_parts(it, layer.id) if isinstance(layer, Ref) and it.kind(layer) == "model" else []
            names = (as_text(part.get("__name__")) for part in filter(None, map(it.thing, layers)))
            counts = (it.sources.parser.find_by_kind(_count, each.tree)[name] for each in files)
            if any(_WEIGHS.match(each or "") for each in names) and sum(counts) == 1:
                yield info.source.place(node)


def _count(kinds: ByKind) -> Counter[str]:
    """Return how often a file has each name behind a dot, or as a word of a text."""
    words = (node.value for node in kinds.get(ast.Constant, ()) if isinstance(node.value, str))
    found = Counter(word for text in words for word in _WORD.findall(text))
    found.update(node.attr for node in kinds.get(ast.Attribute, ()))
    return found
