"""Rules D209, D210 and P145: tensors that move nowhere, or do not fit the weights that they meet."""

import ast
import sys
from collections.abc import Iterator

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.pattern_words import is_found
from preflight.script.rules.attribute_tensors import list_tensors_left
from preflight.script.rules.graph_syntax import find_names, is_of_data
from preflight.script.rules.own_names import get_assigned_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, unparse
from preflight.script.values import Class, Dtype, ExternalName, Ref
from preflight.script.values.constants import FALSE, NONE, ON_CPU, ON_GPU, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, is_by_rank

_FIRST = frozenset(
    {"all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather_into_tensor", "all_gather_single"}
)
_ELSEWHERE = re.compile(
    r"set_default_(?:device|tensor_type)|\bwith +(?:torch\.)?device\b|DeviceContext|(?<!\bself)\.data *= "
)
_PREPARES = re.compile("prepare")
_MOVES = re.compile(r"\.(?:to|cuda|type_as)\(|\bdevice=")


_NO_WRAP = r"(?![\w.]*(?:DistributedDataParallel|DDP|convert_sync_batchnorm)\()"
_COMMENTS = re.compile(r"(?m)^ *#.*$")
_WRAPPED = "wrapped with device_ids"


@dataclass(frozen=True, slots=True)
class _OnGpu:
    """Note of where a model is put on a GPU, or taken off."""

    model: int
    off: bool = False


@dataclass(frozen=True, slots=True)
class _Backend:
    """Note of where a process group is made with a backend, "" for none by name."""

    name: str


@rule("D210", "process group", "collective", "cuda", "off gpu", "forward", "ddp", "end")
def on_unlike_devices(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A tensor on the CPU goes to a collective of NCCL or to a model on a GPU, or the reverse.

    NCCL moves memory of GPUs only: "No backend type associated with device type cpu". A model stops with
    "Expected all tensors to be on the same device", and DistributedDataParallel(model, device_ids=[...]) of a
    model on the CPU with "device_ids and output_device arguments only work with single-device GPU modules".
    Lightning's log(sync_dist=True) sends a tensor from where it is.
    A module that is moved takes its parameters and buffers along, and no tensor that is a plain attribute.
    Source: torch.distributed's table of backends; torch's documentation of Tensor.to.
    """
    call = event.call
    if event.name == "process group":
        it.note(_Backend(event.what), event.place)
    elif event.name == "cuda":
        if event.what == "model" and event.ref is not None:
            it.note(_OnGpu(event.ref), event.place)
    elif event.name == "off gpu":
        it.note(_OnGpu(event.ref or 0, off=True), event.place)
    elif event.name == "ddp":
        named = is_by_rank(event.values.get("ids")) and not it.notes.get(_OnGpu(event.ref or 0))
        it.note((_WRAPPED, event.ref), *([event.place] if named else []))
    elif event.name == "end":
        yield from _wrapped_on_cpu(it)
        yield from _left_by_modules(it)
    elif call is None or it.target.capability is None:
        return
    elif event.name == "collective":
        yield from _sent_from_cpu(it, event, call)
    else:
        yield from _of_a_model(it, event)


def _sent_from_cpu(it: Interpreter, event: ScriptEvent, call: Call) -> Iterator[RuleHit]:
    """Yield where a collective of torch gets a tensor on the CPU, or Lightning's log(..., sync_dist=True)."""
    logged, position = event.what == "log", 0 if event.what in _FIRST else 1
    sent = call.get("value" if logged else "tensor", position)
    if "object" in event.what or sent is not ON_CPU or it.sources.mention(_ELSEWHERE):
        return
    if call.get("group", 3 if event.what == "reduce" else 2) not in (None, NONE):
        return
    func = it.evaluate(call.node.func)
    of_torch = isinstance(func, ExternalName) and func.name.startswith("torch.distributed.")
    backends = {key.name for key in it.notes if isinstance(key, _Backend)}
    if of_torch and backends == {"nccl"} and not _asks_device(it):
        message = "this tensor is on the CPU, and NCCL moves memory of GPUs only"
        fix = 'make it with device="cuda", or on the rank\'s device'
        yield RuleHit(event.place, message, fix, Level.ERROR)
    elif logged and it.state.grouped and not it.sources.mention(_OTHER_BACKEND):
        owner = it.evaluate(call.node.func.value) if isinstance(call.node.func, ast.Attribute) else UNKNOWN
        if it.attr(it.attr(owner, "trainer"), "cpu") != TRUE:
            message = "this value is on the CPU, and sync_dist=True sends it through NCCL"
            fix = "log it before .cpu(), or value.to(self.device)"
            yield RuleHit(event.place, message, fix, Level.WARNING)


_OTHER_BACKEND = re.compile("gloo|process_group_backend")


def _wrapped_on_cpu(it: Interpreter) -> Iterator[RuleHit]:
    """Yield where DistributedDataParallel names a GPU for a model that no line has moved from the CPU."""
    wrapped = [key[1] for key in it.notes if isinstance(key, tuple) and key[0] == _WRAPPED]
    for number in wrapped if it.target.capability is not None else ():
        thing, places = it.thing(number), it.notes[_WRAPPED, number]
        if (
            thing is not None
            and places
            and _stays_on_cpu(it, number, thing)
            and not it.sources.mention(_ELSEWHERE)
        ):
            message = "device_ids names a GPU, and the model was never moved from the CPU"
            yield RuleHit(places[0], message, "model.to(device) before it", Level.WARNING)


def _left_by_modules(it: Interpreter) -> Iterator[RuleHit]:
    """Yield where modules that are moved compute with a tensor of theirs that is not."""
    heap = it.state.heap if it.target.capability is not None else {}
    roots = [key.model for key in it.notes if isinstance(key, _OnGpu) and not key.off]
    for number, thing in heap.items():
        trainer = it.thing(thing.get("accelerator")) if thing.kind == "model" else None
        if trainer is not None and trainer.kind == "lightning trainer" and trainer.get("cpu") != TRUE:
            roots.append(number)
    parts = (it.thing(part) for root in roots if root in heap for part in list_parts(it, root))
    classes = {
        cls.key for thing in parts if thing is not None and isinstance(cls := thing.get("__class__"), Class)
    }
    for info in {id(info.node): info for key in classes for info in it.mro(key)}.values():
        lines = info.source.lines[info.node.lineno - 1 : info.node.end_lineno]
        for used, made, name in list_tensors_left(info.node, list(lines)):
            message = f"self.{name} stays on the CPU where the module is moved to a GPU, and meets its batch"
            fix = f'self.register_buffer("{name}", ...) where it is made'
            place = info.source.place(used)
            if not it.sources.mention(_ELSEWHERE):
                yield RuleHit(place, message, fix, Level.WARNING, (info.source.place(made),))


_ASKS_DEVICE = re.compile(r"(?i)cpu|cuda|gloo|nccl|backend|device|gpu")


def _asks_device(it: Interpreter) -> bool:
    """Whether a condition around the current point may hold where tensors are on the CPU alone."""
    return any(_ASKS_DEVICE.search(unparse(test)) for test in it.tests)


def _of_a_model(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    call, thing = event.call, it.thing(event.ref)
    if call is None or thing is None or event.ref is None or thing.get("wrapped") == TRUE:
        return
    placed = any(item is ON_CPU or item is ON_GPU for item in (*call.args, *call.kwargs.values()))
    if not placed or thing.get("inside") == TRUE:
        return
    # of what is made within the call it is a toy's: of what has a name the place says more
    pairs = [*zip(call.node.args, call.args, strict=False)]
    pairs += [
        (word.value, call.kwargs[word.arg])
        for word in call.node.keywords
        if word.arg and word.arg in call.kwargs
    ]
    spread = [call.kwargs["*"]] if "*" in call.kwargs else []
    given = [value for node, value in pairs if isinstance(node, (ast.Name, ast.Subscript))] + spread
    moved = _is_on_gpu(it, event.ref)
    if not any(item is (ON_CPU if moved else ON_GPU) for item in given) or it.sources.mention(_ELSEWHERE):
        return
    if moved and not (it.notes.get(_OnGpu(event.ref, off=True)) or _moves_itself(it, thing)):
        message = "the model is on a GPU, and an argument of this call is on the CPU"
        yield RuleHit(event.place, message, "make it on the model's device: device=device", Level.WARNING)
    elif not moved and _stays_on_cpu(it, event.ref, thing):
        message = "the batch is on a GPU, and the model was never moved from the CPU"
        yield RuleHit(event.place, message, "model.to(device) before the optimizer is made", Level.WARNING)


def _is_on_gpu(it: Interpreter, model: int) -> bool:
    return bool(it.notes.get(_OnGpu(model)))


def _moves_itself(it: Interpreter, thing: HeapObject) -> bool:
    """Whether the forward() of a class of the script, or one that is not known, may move what it gets."""
    cls = thing.get("__class__")
    if not isinstance(cls, Class):
        return thing.get("touched") == TRUE
    return any(_MOVES.search(unparse(info.node)) for info in it.mro(cls.key))


def _stays_on_cpu(it: Interpreter, model: int, thing: HeapObject) -> bool:
    """Whether nothing of a script may have put a model on a GPU."""
    if thing.get("optimized") != TRUE or thing.get("device_map") != NONE:
        return False
    if thing.get("sharded") == TRUE:  # fully_shard() moves what it shards, as FSDP(device_id=...) does
        return False
    if _is_changed_elsewhere(thing) or _moves_itself(it, thing):
        return False
    holders = [
        number
        for number in list(it.state.heap)
        if it.kind(Ref(number)) == "model" and model in list_parts(it, number)
    ]
    if any(_is_on_gpu(it, number) for number in holders) or len(holders) > 1:
        return False
    source, name = it.sources.get(thing.place.path), get_assigned_name(it, thing.place)
    made = source.lines[thing.place.line - 1] if source else ""
    own = (
        rf"\b{re.escape(name.removeprefix('self.'))}\b *(?:\.(?:to|to_empty|cuda)\(|= *{_NO_WRAP}\w[\w.]*\()"
        if name
        else "(?=)"
    )
    again = [found for each in it.sources.files() for found in re.findall(own, _COMMENTS.sub("", each.text))]
    return bool(name) and "device" not in made and len(again) <= 1 and not it.sources.mention(_PREPARES)


def _is_changed_elsewhere(thing: HeapObject) -> bool:
    """Whether code that was not read, an accelerator, a Trainer or a quantizer has a model."""
    has = thing.get("touched") == TRUE or thing.get("quantized") not in (FALSE, NONE)
    return has or isinstance(thing.get("accelerator"), Ref) or "trainer" in thing.attrs


_NO_TENSOR = re.compile(
    r"(?i)model|module|net|layer|block|param|optim|state|graph|^(?:data|batch|g|item|inputs?_?dict)$"
)
_MOVES_IN_PLACE = re.compile(r"torch_geometric|BatchEncoding|\bdgl\b|\.generate\(\*\*")


@rule("D209", "cuda")
def moved_nowhere(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """What `x.to(device)` or `x.cuda()` of a tensor returns is thrown away.

    A tensor stays where it is; only a module moves in place. The next line fails: "Expected all tensors to be
    on the same device".
    Source: torch's documentation of Tensor.to.
    """
    call = event.call
    if event.what != "tensor" or call is None or not isinstance(call.node.func, ast.Attribute):
        return
    before = it.source.lines[call.node.lineno - 1].encode()[: call.node.col_offset].rstrip(b" \t(")
    if before and before[-1:] not in (b":", b";"):
        return  # within a statement, as most: something takes it
    names, dropped = it.sources.parser.find_by_kind(_dropped, it.scope)
    owner = call.node.func.value
    found = id(call.node) in dropped and isinstance(owner, ast.Name) and owner.id in names
    if found and not it.sources.mention(_MOVES_IN_PLACE):
        fix = f"{unparse(owner)} = {unparse(call.node)}"
        yield RuleHit(event.place, "this moves nothing: it returns another tensor", fix, Level.ERROR)


def _dropped(kinds: ByKind) -> tuple[set[str], set[int]]:
    """Return the names of tensors of batches, and the calls whose results nothing takes."""
    names: set[str] = set()
    calls = {id(node.value) for node in kinds.get(ast.Expr, ()) if isinstance(node.value, ast.Call)}
    for node in (*kinds.get(ast.For, ()), *kinds.get(ast.AsyncFor, ())):
        if is_of_data(node.iter):
            names |= {name for part in getattr(node.target, "elts", ()) for name in find_names([part])}
    for node in kinds.get(ast.Assign, ()):
        if isinstance(node.targets[0], ast.Tuple) and re.search(
            r"^\w*(?:batch|data)$|^next\(", unparse(node.value)
        ):
            names |= find_names(node.targets)
    names -= {
        name for node in kinds.get(ast.keyword, ()) if node.arg is None for name in find_names([node.value])
    }
    return {name for name in names if not _NO_TENSOR.search(name)}, calls


_HALVES = re.compile(r"(?:\w+\.)*(?:half|b?float16)")
_MAY_CAST = re.compile(r"\.(?:half|bfloat16)\(\)|\bto\([^\n]*(?:half|float16)")
_COMPUTES = re.compile(r"torch\.nn\.(?:Linear|Conv\dd|Sequential|Bilinear|LSTM|GRU)$")
_OF_LAYERS = re.compile(r"\bnn\.(?:Linear|Conv\dd)\(")
_CASTS = re.compile(r"\.(?:to|float|half|bfloat16|type|type_as)\(|autocast|dtype|amp\b")
_BEFORE_MODELS = re.compile(r"forward_pre_hook|\.forward *=")


@rule("P145", "forward")
def half_batch_for_float32_weights(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A batch is cast to half precision, and goes to a model in float32 without autocast.

    A linear layer or convolution stops: "mat1 and mat2 must have the same dtype, but got Half and Float".
    Source: torch's documentation of autocast; reproduced with torch 2.13.
    """
    parser = it.sources.parser
    if not parser.make(_may_cast, it.source.text):
        return
    casts, stores = parser.find_by_kind(_half_casts, it.nodes[0])
    call, thing = event.call, it.thing(event.ref)
    if not casts or call is None or thing is None or not call.node.args or "autocast" in it.contexts:
        return
    given: ast.expr | None = call.node.args[0]
    if isinstance(given, ast.Name):
        line = call.node.lineno
        before = [each for each in stores.get(given.id, ()) if each[0] < line]
        _, until, given = max(before, key=lambda each: each[0], default=(0, 0, None))
        if until < line:  # in a branch or function that may not be the call's
            return
    if id(given) in casts and _stays_in_float32(it, thing):
        message = "this batch is in half precision, and the model's weights are in float32"
        fix = 'leave the cast out: with torch.autocast("cuda"): loss = ... computes in half precision'
        yield RuleHit(event.place, message, fix, Level.WARNING)


def _may_cast(text: str) -> bool:
    return is_found(_MAY_CAST, text)


def _half_casts(kinds: ByKind) -> tuple[set[int], dict[str, list[tuple[int, int, ast.expr]]]]:
    """Return the calls that cast a tensor to half precision, and what names are given where any does.

    Each with its line, and the last one of the branch or function around it.
    """
    casts = set[int]()
    for node in kinds.get(ast.Call, ()):
        word = getattr(node.func, "attr", "")
        given = [*node.args, *(each.value for each in node.keywords)]
        if word in ("half", "bfloat16") if not given else word == "to" and any(map(_is_half, given)):
            casts.add(id(node))
    if any(id(each.value) in casts for each in kinds.get(ast.Expr, ())):  # of a module, in its place
        casts.clear()
    owners = [each for kind in (ast.If, ast.FunctionDef) for each in kinds.get(kind, ()) if casts]
    blocks = [block for each in owners for block in (each.body, getattr(each, "orelse", [])) if block]
    ends = [(block[0].lineno, block[-1].end_lineno or 0) for block in blocks]
    stores: dict[str, list[tuple[int, int, ast.expr]]] = {}
    taken = [(target, each.value) for each in kinds.get(ast.Assign, ()) for target in each.targets]
    taken += [(each.target, each.iter) for each in kinds.get(ast.For, ())]
    for target, value in taken if casts else ():
        line = target.lineno
        until = min((last for first, last in ends if first <= line <= last), default=sys.maxsize)
        for part in getattr(target, "elts", [target]):
            stores.setdefault(getattr(part, "id", ""), []).append((line, until, value))
    return casts, stores


def _is_half(node: ast.expr) -> bool:
    return _HALVES.fullmatch(unparse(node)) is not None


def _stays_in_float32(it: Interpreter, thing: HeapObject) -> bool:
    """Whether a model is in float32 on all paths, and nothing in it or around it casts what it gets."""
    if thing.get("dtype") != Dtype("float32") or _is_changed_elsewhere(thing):
        return False
    if thing.get("sharded") == TRUE or thing.get("recast") == TRUE:
        return False
    classes = [unparse(info.node) for info in it.classes.values()]
    if any(map(_CASTS.search, classes)) or it.sources.mention(_BEFORE_MODELS):
        return False
    if isinstance(cls := thing.get("__class__"), Class):
        return any(_OF_LAYERS.search(unparse(info.node)) for info in it.mro(cls.key))
    return _COMPUTES.match(as_text(thing.get("__name__")) or "") is not None
