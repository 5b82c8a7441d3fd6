"""Rule R418: a layer without a use in what DistributedDataParallel wraps."""

import ast
from collections import Counter
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.rules.frozen_parts import FROZEN, REMEDY, hold_frozen_parts, note_frozen_part
from preflight.script.rules.method_reach import is_of_unreached_methods
from preflight.script.rules.poolers import describe_remedy, has_unused_pooler
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.rules.turned_off_layers import list_turned_off_layers
from preflight.script.rules.unread_outputs import list_unread_layers
from preflight.script.syntax_trees import ByKind
from preflight.script.values import Class, Const, ExternalName, Func, Ref
from preflight.script.values.constants import FALSE, NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text

_WEIGHS = re.compile(
    r"torch\.nn\.(?:Linear|Bilinear|Conv|Embedding|LSTM|GRU|RNN|Transformer|Multihead|LayerNorm|GroupNorm)"
)
_BASES = re.compile(r"^torch\.nn\.Module$|^(?:lightning|pytorch_lightning)\b.*\.LightningModule$")
_WORD = re.compile(r"\w+")
_ALL_PARTS = re.compile(r"children\(|_modules\b|getattr\(|__dict__|\bvars\(|torch\.jit")
_EXPECTED = re.compile(r"requires_grad *= *False|requires_grad_\(|_set_static_graph|\.grad is None")


_OTHER_WRAPS = re.compile(
    r"DistributedDataParallelKwargs|find_unused_parameters|DeepSpeed|deepspeed|FullySharded|fsdp"
)
_NO_GRADIENTS = "nothing uses this layer, and DistributedDataParallel waits for its gradients"
_NO_POOLER = "nothing uses the pooler in this model, and DistributedDataParallel waits for its gradients"


@rule("R418", "ddp", "prepare", "lightning", "fit", "forward", "requires grad", "backward", "scaled", "end")
def layer_without_a_use(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A module that DistributedDataParallel wraps has a layer that nothing uses.

    DDP waits for the gradients of all its parameters. The second forward stops: "Expected to have finished
    reduction in the prior iteration before starting a new one"; until then gradients that wait together with
    those of the layer are not exchanged. BERT and its like have a pooler that last_hidden_state does not use.
    A layer that some turns leave out, by their number or by chance, stops the turn behind them.
    With find_unused_parameters=True DDP looks in each step. accelerator.prepare() wraps so too, in a launch
    of several ranks, and Lightning's strategy="ddp".
    Source: torch.nn.parallel.DistributedDataParallel; reproduced on two gloo ranks with torch 2.13.
    """
    if event.name == "end":
        if it.notes.get("goes backward"):
            expected = it.sources.mention(_EXPECTED)
            held = [] if expected else [*it.held_back.get("R418", ()), *_list_unread(it)]
            yield from dict.fromkeys((*it.held_back.get(FROZEN, ()), *held))
    elif event.name in ("backward", "scaled"):
        it.note("goes backward", event.place)
        hold_frozen_parts(it)
    elif event.name == "requires grad":
        note_frozen_part(it, event)
    elif event.name == "lightning":
        call = event.call
        if call is not None and not call.open and call.get("strategy", 1) == Const("ddp"):
            it.note(("ddp of Lightning", event.ref), event.place)
    elif event.ref and it.target.processes != 1:
        if event.name == "forward":
            _note_turned_off(it, event.ref, event.call)
        elif event.call is not None and (remedy := _find_remedy(it, event)):
            _note_wrapped(it, event, event.ref, remedy)


def _note_wrapped(it: Interpreter, event: ScriptEvent, model: int, remedy: str) -> None:
    """Note a model that is wrapped, and keep the layers of it that nothing uses."""
    found = it.held_back.setdefault("R418", [])
    parts = {number: thing for number in list_parts(it, model) if (thing := it.thing(number))}
    for number, thing in parts.items():
        ref = Ref(number)
        held_as = [key for each in parts.values() for key, value in each.attrs.items() if value == ref]
        for place, message, fix in _list_unused(it, thing, held_as):
            either = f"{fix}, or {remedy}"
            found.append(RuleHit(place, message, either, Level.WARNING, (event.place,)))
    if event.name == "ddp":
        it.note(("wrapped", model, remedy), event.place)
    it.note((REMEDY, model, remedy), event.place)
    if event.name == "fit":
        it.note("goes backward", event.place)
        _note_turned_off(it, model, None, "training_step")


_TURNED_OFF = "some turns do not use {}, and DistributedDataParallel waits for its gradients in each"


def _note_turned_off(it: Interpreter, model: int, call: Call | None, method: str = "forward") -> None:
    """Keep the layers that a wrapped model uses in some turns only."""
    if "no_grad" in it.contexts:
        return
    wraps = [
        (key[2], places)
        for key, places in it.notes.items()
        if isinstance(key, tuple) and key[:2] == (REMEDY, model)
    ]
    for remedy, places in wraps[:1]:
        for layer, place in list_turned_off_layers(it, model, call, method):
            fix = f"{remedy}, or add 0 times what {layer} gives in the other turns"
            hit = RuleHit(place, _TURNED_OFF.format(layer), fix, Level.WARNING, (places[0],))
            it.held_back.setdefault("R418", []).append(hit)


def _list_unread(it: Interpreter) -> Iterator[RuleHit]:
    """Yield the layers of the one wrapped model whose output training names and never reads."""
    wrapped = [
        (key, places) for key, places in it.notes.items() if isinstance(key, tuple) and key[0] == "wrapped"
    ]
    for (_, ref, remedy), places in wrapped if len(wrapped) == 1 else ():
        thing = it.thing(ref)
        cls = thing.get("__class__") if thing is not None and thing.get("touched") != TRUE else None
        infos = list(it.mro(cls.key)) if isinstance(cls, Class) else []
        for layer, place in list_unread_layers(it, infos[0]) if len(infos) == 1 else ():
            held = thing.get(layer) if thing is not None else NONE
            names = (
                [as_text(it.attr(part, "__name__")) for part in list_parts(it, held.id)]
                if isinstance(held, Ref)
                else []
            )
            if any(_WEIGHS.match(each or "") for each in names):
                message = (
                    f"no loss takes what {layer} gives, and DistributedDataParallel waits for its gradients"
                )
                fix = f"leave {layer} out of forward(), or {remedy}"
                yield RuleHit(place, message, fix, Level.WARNING, (places[0],))


def _find_remedy(it: Interpreter, event: ScriptEvent) -> str:
    """Return how the wrapper of an event is made to look for what is not used; "" where it may do so."""
    call = event.call
    if call is None or event.name == "ddp":
        func = it.evaluate(call.node.func) if call is not None else NONE
        of_torch = isinstance(func, ExternalName) and func.name.startswith("torch.")
        asked = (
            {(call.get("find_unused_parameters", 6) or FALSE, call.get("static_graph") or FALSE)}
            if call
            else set()
        )
        sure = call is not None and of_torch and not call.open and asked == {(FALSE, FALSE)}
        return "DistributedDataParallel(..., find_unused_parameters=True)" if sure else ""
    if event.name == "fit":
        trainer = event.values.get("trainer")
        known = isinstance(trainer, Ref) and it.notes.get(("ddp of Lightning", trainer.id))
        return 'strategy="ddp_find_unused_parameters_true"' if known else ""
    if it.kind(event.values.get("accelerator")) != "accelerator" or it.sources.mention(_OTHER_WRAPS):
        return ""
    return "Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])"


def _list_unused(
    it: Interpreter, thing: HeapObject, held_as: list[str]
) -> Iterator[tuple[CodeLocation, str, str]]:
    """Yield where a module of the script gets a layer whose name the script has nowhere else, and a fix."""
    cls, files = thing.get("__class__"), it.sources.files()
    infos = list(it.mro(cls.key)) if isinstance(cls, Class) and thing.get("touched") != TRUE else []
    bases = (base for info in infos for base in info.bases if not isinstance(base, Class))
    runs = any(name in info.names for info in infos for name in ("forward", "training_step"))
    if not runs or not all(isinstance(base, ExternalName) and _BASES.search(base.name) for base in bases):
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
            weighs = any(_WEIGHS.match(each or "") for each in names)
            if weighs and (sum(counts) == 1 or is_of_unreached_methods(it, info, name, held_as)):
                yield info.source.place(node), _NO_GRADIENTS, "remove it"
            if has_unused_pooler(info.node, node, info.source.text):
                yield info.source.place(node), _NO_POOLER, describe_remedy(node.value)


def _count(kinds: ByKind) -> Counter[str]:
    """Return how often a file has each name behind a dot, or as a word of a text."""
    words = (node.value for node in kinds.get(ast.Constant, ()) if isinstance(node.value, str))
    found = Counter(word for text in words for word in _WORD.findall(text))
    found.update(node.attr for node in kinds.get(ast.Attribute, ()))
    return found
