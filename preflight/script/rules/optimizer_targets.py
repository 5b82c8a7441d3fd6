"""Rule P142: optimizers of parameters that training does not use, or no longer."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import UNCALLED, UNREACHED
from preflight.script.interpreter.events import OWN_STEP, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.libraries.pytorch import list_trained_models
from preflight.script.rules.own_names import get_assigned_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Class, Const, Dtype, Ref, Value
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, list_values

_REPLACES = re.compile(r"add_param_group|[\"']params[\"']\] *=")
_UNFREEZES = re.compile(
    r"(?i)requires_grad_?\b *(?:=|\() *(?!False|=)|unfreeze|setattr\(|_modules\b|lora|adapter|Parameter\("
)
"""What gives a frozen model parameters to train, or may."""
_CALLED_ELSEWHERE = re.compile(r"functional_call|make_functional|\bvmap\(|higher\.")
_OF_ITSELF = re.compile(r"\s*self\.\w+ *[:=]")  # what a class does to its own parts, as it is built
_NO_WEIGHTS = re.compile(
    r"^torch\.nn\.\w*(?:Loss|LU|Dropout\w*|Identity|Softmax|Tanh|Sigmoid|Pool\w*|Flatten)$"
)
_MADE_AFTER = {
    "adapters": "PEFT freezes what this optimizer steps, and trains adapters that it does not hold",
    "resized": "without tied weights resize_token_embeddings() makes an output layer that it does not hold",
    "part replaced": "a part of the model is replaced by one that this optimizer does not hold",
}


_FORWARDS = "models called"  # each with whether gradients flow, and the file


@dataclass(frozen=True, slots=True)
class _Stepped:
    """Note of where an optimizer steps in a loop."""

    optimizer: int


@rule("P142", *_MADE_AFTER, "forward", "step", "scaler step", "end")
def steps_of_what_is_not_trained(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """An optimizer holds parameters that the training does not use, or no longer.

    It is made before PEFT adds its adapters, before embeddings are resized or a head is replaced; or it is
    that of another model than the one whose loss is computed. Nothing raises: the loss does not fall.
    transformers keeps the parameter of resized embeddings, and makes that of an output layer anew which is
    not tied to them.
    Source: torch.optim keeps the parameters that it is given; transformers/modeling_utils.py; each reproduced
    with torch 2.13 and transformers 5.24.
    """
    if event.name in _MADE_AFTER:
        _note_outdated(it, event)
    elif event.name == "forward":
        key = (event.ref or 0, "no_grad" not in it.contexts, event.place.path)
        seen = it.held_back.setdefault(_FORWARDS, [])
        if key not in seen:
            seen.append(key)
    elif event.name == "end":
        yield from _of_another_model(it)
    elif event.what != OWN_STEP:
        for item in list_values(event.values.get("optimizer", Ref(event.ref or 0))):
            optimizer = it.thing(item) if isinstance(item, Ref) else None
            if optimizer is None or not isinstance(item, Ref):
                continue
            reached = not any(name.startswith((UNCALLED, UNREACHED)) for name in it.contexts)
            if it.loop_depth and reached and _is_apart(it, item):
                it.note(_Stepped(item.id), event.place)
            outdated = optimizer.get("outdated")
            if isinstance(outdated, Dtype) and outdated.place and not it.sources.mention(_REPLACES):
                message, fix = _MADE_AFTER[outdated.name], "make the optimizer after it"
                level = Level.INFO if outdated.name == "resized" else Level.WARNING
                yield RuleHit(optimizer.place, message, fix, level, (outdated.place,))
            elif it.loop_depth and _is_frozen(it, item) and not it.sources.mention(_UNFREEZES):
                message, fix = (
                    "all parameters of this optimizer are frozen",
                    "leave out of it what is to be trained",
                )
                yield RuleHit(optimizer.place, message, fix, Level.WARNING)


def _is_frozen(it: Interpreter, optimizer: Ref) -> bool:
    """Whether all that an optimizer steps needs no gradient, as far as every part of it is known."""
    numbers = [number for model in list_trained_models(it, optimizer) for number in list_parts(it, model.id)]
    parts = [thing for number in numbers if (thing := it.thing(number)) is not None]
    return bool(parts) and all(
        part.get("trainable") == Const("none")
        and part.get("touched") != TRUE
        and part.get("adapters") == NONE
        for part in parts
    )


def _note_outdated(it: Interpreter, event: ScriptEvent) -> None:
    held = Ref(event.ref or 0)
    if any(name.startswith((UNCALLED, UNREACHED)) for name in it.contexts) or it.lookup("self") == held:
        return  # of what a constructor builds
    new = event.values.get("value")
    of_itself = _OF_ITSELF.match(it.source.lines[event.place.line - 1])
    if event.name == "part replaced" and (of_itself or not _has_place(it, held, event.what, new)):
        return
    for number, thing in list(it.state.heap.items()):
        models = thing.get("models") if thing.kind == "optimizer" else NONE
        beside = thing.place.path == event.place.path
        if beside and held in getattr(models, "items", ()) and not (isinstance(new, Ref) and new.id < number):
            it.change(number, outdated=Dtype(event.name, event.place))


def _has_place(it: Interpreter, model: Ref, name: str, part: Value | None) -> bool:
    """Whether a part with weights to train takes the place of one of a model, and is not added to it."""
    thing = it.thing(part) if isinstance(part, Ref) else None
    if thing is None or thing.get("trainable") == Const("none"):
        return False
    if _NO_WEIGHTS.search(as_text(thing.get("__name__")) or ""):
        return False
    cls = it.attr(model, "__class__")
    own = [unparse(info.node) for info in it.mro(cls.key)] if isinstance(cls, Class) else []
    return not own or any(f"self.{name} =" in text for text in own)


def _is_apart(it: Interpreter, optimizer: Ref) -> bool:
    """Whether the models of an optimizer were called without gradients only, or have no name any more."""
    mine = list_trained_models(it, optimizer)
    flows = _flows(it)
    return bool(mine) and all(
        not _is_used(it, model.id, flows) and (_is_served(it, model) or _is_lost(it, model)) for model in mine
    )


def _flows(it: Interpreter) -> list[int]:
    return [model for model, flows, _ in it.held_back.get(_FORWARDS, ()) if flows]


def _of_another_model(it: Interpreter) -> Iterator[RuleHit]:
    """Yield optimizers whose models are called without gradients only, beside one that no optimizer has."""
    optimizers = [
        (number, thing)
        for number, thing in it.state.heap.items()
        if thing.kind == "optimizer" and it.notes.get(_Stepped(number))
    ]
    if not optimizers or it.sources.mention(_CALLED_ELSEWHERE):
        return
    every = [number for number, thing in it.state.heap.items() if thing.kind == "optimizer"]
    stepped = {model.id for number in every for model in list_trained_models(it, Ref(number))}
    known = {number for model in stepped for number in list_parts(it, model)}
    flows = _flows(it)
    for number, optimizer in optimizers:
        places = it.notes.get(_Stepped(number))
        if not places or any(_is_used(it, model.id, flows) for model in list_trained_models(it, Ref(number))):
            continue
        others = [
            thing
            for model in flows
            if model not in known and (thing := it.thing(model)) and _learns(thing)
            if (model, True, places[0].path) in it.held_back[_FORWARDS]
            if all(
                _is_served(it, old) or _has_its_name(it, old, thing)
                for old in list_trained_models(it, Ref(number))
            )
        ]
        if others and optimizer.place.path == places[0].path:
            message = "this optimizer steps another model than the one that computes the loss"
            fix = "the parameters of the model that is trained"
            yield RuleHit(optimizer.place, message, fix, Level.WARNING, (others[0].place, places[0]))


def _is_used(it: Interpreter, model: int, flows: list[int]) -> bool:
    """Whether a model, a part of it or what holds it is called with gradients."""
    if model in flows:
        return True
    parts = set(list_parts(it, model))
    return any(number in parts or model in list_parts(it, number) for number in flows)


def _learns(thing: HeapObject) -> bool:
    """Whether a model that is called is one to train, and not a fixed one that a loss goes through."""
    known = "__class__" in thing.attrs or thing.get("library") != NONE or thing.get("__name__") != NONE
    return known and thing.get("trainable") == Const("all") and thing.get("only_used", NONE) != TRUE


def _is_served(it: Interpreter, model: Ref) -> bool:
    """Whether a model is called without gradients."""
    return any(number == model.id and not flows for number, flows, _ in it.held_back.get(_FORWARDS, ()))


def _has_its_name(it: Interpreter, old: Ref, new: HeapObject) -> bool:
    """Whether a model has got the name of an earlier one."""
    thing = it.thing(old)
    name = get_assigned_name(it, thing.place) if thing else ""
    return bool(name) and get_assigned_name(it, new.place) == name


def _is_lost(it: Interpreter, model: Ref) -> bool:
    """Whether no name of the script leads to a model any more."""
    for names in it.state.frames.values():
        for value in names.values():
            for item in list_values(value):
                if isinstance(item, Ref) and (item.id == model.id or model.id in list_parts(it, item.id)):
                    return False
    return True
