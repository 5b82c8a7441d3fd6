"""What libraries do, as far as precision and placement go: one table of names to functions."""

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.arguments import build_command_line
from preflight.script.interpreter.assignments import assign_target
from preflight.script.interpreter.calls import call_function, call_value, taint_arguments
from preflight.script.interpreter.classes import find_method
from preflight.script.interpreter.events import OWN_STEP, Call, ScriptEvent
from preflight.script.interpreter.interpreter import (
    CallModel,
    ConstructorModel,
    Interpreter,
    MethodModel,
    unwrap_value,
)
from preflight.script.libraries import (
    builtin_functions,
    collectives,
    command_lines,
    data_loaders,
    devices,
    distributed,
    engines,
    environment,
    files,
    huggingface,
    lightning,
    models,
    optimizer_steps,
    pytorch,
    record_classes,
    services,
    stdlib,
)
from preflight.script.libraries.callbacks import STOPS
from preflight.script.libraries.casts import EACH, get_modules
from preflight.script.libraries.command_lines import FLAGS, read_flag
from preflight.script.library_names import (
    KNOWN_ROOTS,
    MODEL_METHODS,
    TENSOR_TYPES,
    TORCH_DTYPES,
    is_arguments_class,
    is_model_class,
    is_named_trainer,
    is_optimizer_class,
    is_trainer_class,
    root_and_last,
)
from preflight.script.values import (
    Class,
    Const,
    Device,
    Dtype,
    Element,
    ExternalName,
    Func,
    Map,
    Method,
    OneOf,
    RankValue,
    Ref,
    Seq,
    Value,
)
from preflight.script.values.constants import FALSE, OF_LAUNCH, OF_NODE, OF_RANK, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, is_by_rank, join, list_values

_MODEL_NAME = re.compile(
    r"(^|_)(model|net|network|unet|transformer|policy|generator|backbone|student)\d*$", re.IGNORECASE
)
_OF_ENGINES = re.compile(r"accelerator|fabric|engine|trainer|strategy|booster|scaler", re.IGNORECASE)
"""Names of what takes a loss and scales it, where reading does not know what it is."""
_ITERATED = ("instance", "list", "loader")
_HALVES = (Dtype("float16"), Dtype("bfloat16"))
_AT_HOME = {"peft": re.compile("Peft"), "trl": re.compile(r"(Trainer|Config|ValueHead)$")}
_ELSEWHERE = re.compile(r"Peft|ValueHead$|(SFT|DPO|ORPO|KTO|CPO|GRPO|RLOO|PPO|Reward)(Trainer|Config)$")
"""Which names of `import *` are whose, where a name alone would fit several libraries."""
_DTYPES = {
    **{f"torch.{name}": dtype for name, dtype in (*TORCH_DTYPES.items(), *TENSOR_TYPES.items())},
    **{f"torch.cuda.{name}": dtype for name, dtype in TENSOR_TYPES.items()},
}
_MODULES = (
    *(stdlib, command_lines, environment, builtin_functions, record_classes, devices, pytorch, huggingface),
    *(lightning, distributed, collectives, files, data_loaders, engines, optimizer_steps, services),
)
"""Where one name has several models, the last one counts."""


def _table(name: str) -> dict[Any, Any]:
    """Return what the tables of all modules that have one of this name hold."""
    tables = (getattr(module, name, {}) for module in _MODULES)
    return {key: model for table in tables for key, model in table.items()}


_CALLS: dict[str, CallModel] = _table("CALLS")
_CLASSES: dict[str, str] = _table("CLASSES")
_CONSTRUCT: dict[str, ConstructorModel] = _table("CONSTRUCT")
_METHODS: dict[tuple[str, str], MethodModel] = _table("METHODS")
_OF_PROCESS: dict[str, Callable[[Interpreter], Value]] = {
    "device": lambda _it: Device("cuda", of_rank=True),
    **dict.fromkeys(("process_index", "global_rank"), lambda _it: RankValue(of=OF_LAUNCH)),
    **dict.fromkeys(("local_process_index", "local_rank"), lambda _it: RankValue(of=OF_NODE)),
    **dict.fromkeys(("num_processes", "world_size"), lambda it: Const(it.target.world)),
    "n_gpu": lambda _it: Const(1),  # of transformers' arguments, in a process that a launcher starts
}
_PARTS = {("lightning trainer", "strategy"): "strategy", ("trainer", "accelerator"): "trainer's accelerator"}
"""Things that a Trainer holds, of which their methods alone are known."""
_PROCESSES = frozenset({"accelerator", "partial state", "arguments", "fabric", "lightning trainer"})
"""Objects that know which process it is."""


class LibraryModel:
    """The Library that the interpreter asks."""

    def constant(self, it: Interpreter, name: str, node: ast.AST) -> Value | None:
        """Return torch's dtypes, absl's flags, the command line and TYPE_CHECKING; other names stay names."""
        if name in _DTYPES:
            return Dtype(_DTYPES[name], it.place(node))
        if name == "sys.argv":
            return build_command_line(it)
        if name in ("typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING"):
            return FALSE
        return read_flag(it, name.removeprefix(FLAGS)) if name.startswith(FLAGS) else None

    def find_export(self, it: Interpreter, name: str, node: ast.AST) -> Value | None:
        """Return what a name is that a script gets by `import *`, None when the library has none such."""
        known = self.constant(it, name, node)
        if known is not None:
            return known
        root, last = root_and_last(name)
        at_home = bool(_AT_HOME.get(root, _ELSEWHERE).search(last)) == (root in _AT_HOME)
        named = name in _CALLS or name in _CLASSES or (at_home and bool(self.class_kind(name)))
        schedules = root in ("transformers", "diffusers") and "_schedule" in last
        return ExternalName(name) if named or schedules else None

    def call(self, it: Interpreter, name: str, call: Call) -> Value:
        """Return what calling a library's name gives."""
        handler = _CALLS.get(name)
        if handler is not None:
            return handler(it, call)
        kind = self.kind_of_call(it, name, call)
        if kind:
            ref = it.allocate(HeapObject(kind, call.place, {"__name__": Const(name)}))
            self.construct(it, ref, name, call)
            return ref
        for by_form in (huggingface.call_by_form, pytorch.call_by_form, files.open_by_form):
            found = by_form(it, name, call)
            if found is not None:
                return found
        root, _ = root_and_last(name)
        if root in command_lines.ROOTS:
            return command_lines.run_given(it, root, call)
        if root not in KNOWN_ROOTS:
            taint_arguments(it, call)
        return UNKNOWN

    def method(self, it: Interpreter, owner: Ref | Element, name: str, call: Call) -> Value:
        """Return what a method of a known object gives."""
        if name.startswith("super."):
            return self._super(it, owner, name.removeprefix("super."), call)
        thing = it.thing(owner)
        if thing is None:
            return UNKNOWN
        if name in _OF_ALL_RANKS and "trainer" in thing.attrs:  # of a LightningModule
            if name == "all_gather" or (call.get("sync_dist"), call.get("rank_zero_only")) == (TRUE, None):
                collectives.emit_collective(it, call, name)
            return UNKNOWN
        if isinstance(owner, Element) or thing.kind == "model":
            return models.model_method(it, owner, name, call)
        handler = _METHODS.get((thing.kind, name))
        return handler(it, owner, call) if handler is not None else UNKNOWN

    def _super(self, it: Interpreter, owner: Ref | Element, name: str, call: Call) -> Value:
        of_class = it.attr(owner, "__class__")
        if not isinstance(of_class, Class) or not isinstance(owner, Ref):
            return UNKNOWN
        for info in list(it.mro(of_class.key))[1:]:
            found = info.names.get(name)
            if isinstance(found, Func) and found.key not in it.stack:
                return call_value(it, Func(found.key, found.frame, owner), call)
        if name != "__init__":
            return self.method(it, owner, name, call)
        base = it.library_base(of_class.key)
        if base:
            self.construct(it, owner, base, call)
        return UNKNOWN

    def attribute(self, it: Interpreter, owner: Ref | Element, name: str) -> Value:
        """Return an attribute of a known object."""
        thing = it.thing(owner)
        if thing is None:
            return UNKNOWN
        if isinstance(owner, Element) or thing.kind == "model":
            if name in ("weight", "bias"):
                if isinstance(owner, Ref) and (as_text(thing.get("__name__")) or "").startswith("torch.nn."):
                    return Element(owner.id, models.OWN)  # one of the layer's own
                if isinstance(owner, Element) and owner.what == EACH:
                    return Element(owner.of, "weight")
            known = models.model_attribute(it, owner, name)
            if known is not None:
                return known
            if name == "module" and isinstance(owner, Ref) and TRUE in list_values(thing.get("inside")):
                return Ref(owner.id)  # of DistributedDataParallel and DataParallel
            gathers = name in _OF_ALL_RANKS and "trainer" in thing.attrs
            if isinstance(owner, Element) or gathers or name in MODEL_METHODS or name.startswith("__"):
                return Method(owner, name)
            return Element(owner.id, "module") if "__class__" not in thing.attrs else UNKNOWN
        if thing.kind in _PROCESSES and name in _OF_PROCESS:
            return _OF_PROCESS[name](it)
        if (thing.kind, name) == ("optimizer", "param_groups"):
            return pytorch.list_parameter_groups(it, owner)
        if part := _PARTS.get((thing.kind, name)):
            return it.allocate(HeapObject(part, thing.place))
        return Method(owner, name) if (thing.kind, name) in _METHODS else UNKNOWN

    def assign(self, it: Interpreter, owner: Value, name: str, value: Value, place: CodeLocation) -> None:
        """Note that an attribute was set."""
        if isinstance(owner, ExternalName):
            command_lines.set_flag(it, owner, name, value)
        elif isinstance(owner, Element):
            models.assign_parameter(it, owner, name, value, place)
        elif it.kind(owner) == "model config" and name in ("_attn_implementation", "attn_implementation"):
            node = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[], keywords=[])
            made = Call(node, place, (), {name: value}, {name: place}, open=False)
            it.emit(ScriptEvent("attention", place, None, made))
        elif isinstance(owner, Ref) and it.kind(value) == "model" and it.attr(owner, "optimized") == TRUE:
            it.emit(ScriptEvent("part replaced", place, owner.id, None, name, {"value": value}))
        elif isinstance(owner, Ref) and it.kind(owner) == "arguments":
            it.emit(ScriptEvent("argument set", place, owner.id, None, name, {"value": value}))
        elif isinstance(owner, Ref) and name in STOPS.get(it.kind(owner), ()):
            it.emit(ScriptEvent("stop", place, owner.id, None, name, {"value": value}))

    def subscript(self, it: Interpreter, name: str, key: Value) -> Value:
        """Return an item of os.environ."""
        if name.startswith("os.environ"):
            return environment.read_variable(it, key, contains=name.endswith("__contains__"))
        return UNKNOWN

    def element(self, it: Interpreter, iterable: Value) -> Value:
        """Return what iterating over a value yields."""
        if data_loaders.may_draw(it, iterable):
            data_loaders.note_draw(it, iterable)
            return join(self._yielded(it, item) for item in list_values(iterable) if isinstance(item, Ref))
        if isinstance(iterable, Seq):
            values = join(iterable.items) if iterable.items else UNKNOWN
            return join((values, UNKNOWN)) if iterable.open and len(iterable.items) > 1 else values
        if isinstance(iterable, Element):
            return _part_element(iterable)
        if isinstance(iterable, OneOf):
            return join(self.element(it, item) for item in iterable.values)
        if isinstance(iterable, Ref):
            return self._yielded(it, iterable)
        if isinstance(iterable, Map):
            return join(Const(name) for name, _ in iterable.items) if not iterable.open else UNKNOWN
        return OF_RANK if is_by_rank(iterable) else UNKNOWN

    def _yielded(self, it: Interpreter, iterable: Ref) -> Value:
        """Return what the __iter__ of a class of the script yields, or its __next__, or a list of modules."""
        for name in ("__iter__", "__next__") if it.kind(iterable) in _ITERATED else ():
            method, dead = find_method(it, iterable, name), it.state.dead
            if method is not None:
                made = call_function(it, method, unwrap_value(it, it.functions[method.key].node, ()))
                it.state.dead = dead  # at times it raises StopIteration
                if made != iterable:
                    return self.element(it, made) if name == "__iter__" else made
        if it.kind(iterable) == "list":
            return self.element(it, record_classes.list_items(it, iterable))
        return join(get_modules(it.thing(iterable)))

    def note_raw_backward(self, it: Interpreter, call: Call) -> None:
        """Send the rules the event of a backward() without a scaler or accelerator in it."""
        it.state.scaled = False
        owner = getattr(call.node.func, "value", None)
        handed = call.args and _OF_ENGINES.search(getattr(owner, "attr", getattr(owner, "id", "")))
        it.emit(call.event("backward", None, "handed" if handed else "raw"))

    def note_own_step(self, it: Interpreter, owner: Value | None, call: Call) -> None:
        """Send the rules a step, where the owner is an optimizer."""
        if isinstance(owner, Ref) and it.kind(owner) == "optimizer":
            it.emit(call.event("step", owner.id, OWN_STEP))

    def promote_owner(self, it: Interpreter, call: Call) -> Value | None:
        """An unknown object whose parameters are read is a model from then on; of it little is known."""
        func = call.node.func
        if not isinstance(func, ast.Attribute):
            return None
        owner = models.find_moved_model(func.value)
        name = getattr(owner, "id", getattr(owner, "attr", ""))  # none of what another call gives
        if func.attr in ("parameters", "named_parameters"):
            sure = bool(name)
        elif func.attr not in ("half", "bfloat16", "to"):
            return None
        else:
            given = (*call.args, *call.kwargs.values())
            casts = func.attr in ("half", "bfloat16") and not given
            is_model = bool(_MODEL_NAME.search(name))
            sure = casts and (is_model or it.is_named(call.node))
            sure = sure or (is_model and func.attr == "to" and any(item in _HALVES for item in given))
        if not sure:
            return None
        ref = it.allocate(models.make_model(call.place, UNKNOWN, touched=TRUE))
        if name:
            assign_target(it, owner, ref)
        return models.model_method(it, ref, func.attr, call)

    def move_unknown(self, it: Interpreter, call: Call) -> Value:
        """Send the rules the event of something unknown that is put on a GPU; return a tensor on it."""
        name = getattr(call.node.func, "attr", "")
        cuda = name == "cuda"
        here: tuple[Value, ...] = (Device(name),) if name in ("cuda", "cpu") and not call.args else ()
        for argument in (*here, *call.args, *call.kwargs.values()):
            for item in list_values(argument):
                device = models.as_device(item) if cuda or as_text(item) or type(item) is RankValue else item
                if isinstance(device, Device) and device.kind == "cuda":
                    values = models.describe_use(device, item, argument)
                    it.emit(call.event("cuda", None, "tensor", **values))
        given = [*here, *call.args, *(call.kwargs[word] for word in call.kwargs if word == "device")]
        return devices.make_tensor_on(item for item in given if not isinstance(item, Dtype))

    def class_kind(self, name: str) -> str:
        """Return the kind of thing that a library's class makes."""
        return _class_kind(name)

    def kind_of_call(self, it: Interpreter, name: str, call: Call) -> str:
        """Return the kind of thing that a class makes of these arguments.

        A class that is called a trainer and is given TrainingArguments works as that of transformers.
        """
        kind = self.class_kind(name)
        if kind or not is_named_trainer(name):
            return kind
        given = (*call.args, *call.kwargs.values())
        return "trainer" if any(it.kind(item) == "arguments" for item in given) else ""

    def construct(self, it: Interpreter, ref: Ref, name: str, call: Call) -> None:
        """Do what the library's constructor does."""
        kind = self.class_kind(name) or it.kind(ref)
        if kind == "model":
            pytorch.construct_module(it, ref, name, call)
            return
        handler = _CONSTRUCT.get(kind)
        if handler is not None:
            handler(it, ref, name, call)
        elif kind in ("", "instance"):
            taint_arguments(it, call)


_OF_ALL_RANKS = frozenset({"all_gather", "log", "log_dict"})


@lru_cache(maxsize=256)
def _class_kind(name: str) -> str:
    if is_trainer_class(name):
        return "trainer"
    if is_arguments_class(name):
        return "arguments"
    if is_optimizer_class(name):
        return "optimizer"
    if is_model_class(name) or name in pytorch.MODULES or (name.startswith("torch.nn.") and _is_layer(name)):
        return "model"
    if name.startswith("torchmetrics.") and name.rpartition(".")[2][:1].isupper():
        return "metric"
    return _CLASSES.get(name) or lightning.find_class_kind(name)


def _is_layer(name: str) -> bool:
    """torch.nn.Linear, not torch.nn.functional.relu, torch.nn.utils..., torch.nn.Parameter."""
    parts = name.split(".")
    return (
        len(parts) == 3 and parts[2][:1].isupper() and parts[2] not in ("Parameter", "DataParallel", "Buffer")
    )


def _part_element(part: Element) -> Value:
    if part.what == "parameters":
        return Element(part.of, "parameter")
    if part.what == "named":
        return Seq((UNKNOWN, Element(part.of, "parameter")))
    if part.what.endswith("modules"):
        module = Element(part.of, EACH if part.what in ("modules", "named modules") else "module")
        return Seq((UNKNOWN, module)) if part.what.startswith("named") else module
    return UNKNOWN
