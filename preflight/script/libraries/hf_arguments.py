"""TrainingArguments, TRL's configurations and HfArgumentParser: what precision a Trainer gets."""

from preflight.script.interpreter.arguments import find_options, find_switch
from preflight.script.interpreter.classes import instantiate
from preflight.script.interpreter.config_files import load_config
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.environment import launch_precision
from preflight.script.library_names import is_arguments_class, is_trl_config
from preflight.script.values import Class, Const, Dtype, Element, ExternalName, Map, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, build_map, join, list_values

TRL_DEFAULT_SINCE = (0, 20)  # trl from this version sets bf16 = not fp16 where bf16 is not given

_PRECISIONS = ("fp16", "bf16")
_SWITCHES = (*_PRECISIONS, "use_cpu")


def construct_arguments(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    """TrainingArguments(...): note its precision, and that the rank now has its device."""
    fallback = UNKNOWN if call.open else NONE
    unset = {switch: it.attr(ref, switch, fallback) for switch in _SWITCHES if switch not in call.kwargs}
    it.change(ref.id, **{**call.kwargs, "open": Const(call.open), **unset})
    _finish(it, ref, name, call)


def _finish(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    requested_at = Dtype(
        "at", call.get_place(next((word for word in _PRECISIONS if word in call.places), ""))
    )
    requested, trl = find_requested_precision(it, ref, name), Const(is_trl_config(name))
    it.change(ref.id, requested=requested, trl=trl, __name__=Const(name), requested_at=requested_at)
    it.state.device_set = True
    it.emit(call.event("arguments", ref.id, name))


def find_requested_precision(it: Interpreter, ref: Ref, name: str) -> Value:
    """Return the mixed precision that these arguments ask for: a name, or NONE when the launch decides."""
    thing = it.thing(ref)
    if thing is None:
        return UNKNOWN
    fp16, bf16 = thing.get("fp16"), thing.get("bf16")
    on_fp16 = as_bool(fp16)
    if on_fp16:
        return Const("fp16")
    if bf16 == NONE and is_trl_config(name) and on_fp16 is False and _trl_default(it):
        return Const("bf16")
    on_bf16 = as_bool(bf16)
    if on_fp16 is None or on_bf16 is None:
        first = (
            (Const("fp16"), UNKNOWN) if on_fp16 is None and Const(True) in list_values(fp16) else (UNKNOWN,)
        )
        return join(first)
    return Const("bf16") if on_bf16 else NONE


def _trl_default(it: Interpreter) -> bool:
    have = it.target.version("trl")
    return have is None or have >= TRL_DEFAULT_SINCE


def find_mixed_precision(it: Interpreter, args: Value) -> Value:
    """Return the mixed precision in force for a Trainer with these arguments, as far as it is known."""
    launch = launch_precision(it)
    if args == NONE:
        return launch
    results: list[Value] = []
    for item in list_values(args):
        requested = find_requested_precision(it, item, _name(it, item)) if isinstance(item, Ref) else UNKNOWN
        results += [launch if value == NONE else value for value in list_values(requested)]
    return join(results)


def _name(it: Interpreter, args: Ref) -> str:
    value = it.attr(args, "__name__")
    return str(value.value) if isinstance(value, Const) else ""


def is_sharded(it: Interpreter, args: Value) -> bool:
    """Whether DeepSpeed or FSDP keeps float32 masters, or may."""
    for item in list_values(args):
        for name in ("deepspeed", "fsdp") if isinstance(item, Ref) else ():
            if it.attr(item, name) not in (NONE, Const(""), FALSE):
                return True
    return False


def is_surely_sharded(it: Interpreter, args: Value) -> bool:
    """Whether DeepSpeed or FSDP is named in these arguments on every path."""
    if not isinstance(args, Ref):
        return False
    given = (it.attr(args, name) for name in ("deepspeed", "fsdp"))
    return any(as_text(value) or isinstance(value, Map) for value in given)


def construct_parser(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    """HfArgumentParser((ModelArguments, TrainingArguments)): note the classes."""
    types = call.get("dataclass_types", 0) or UNKNOWN
    classes = types if isinstance(types, Seq) else Seq((types,))
    it.change(ref.id, classes=classes)


def parse_dataclasses(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Return one object per class, filled from the launch's arguments and the defaults."""
    return _objects(it, owner, call, None)


def parse_values(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """parse_dict({...}), parse_json_file(path), parse_yaml_file(path): filled from what these hold."""
    given = call.args[0] if call.args else next(iter(call.kwargs.values()), UNKNOWN)
    return _objects(it, owner, call, build_map(given if isinstance(given, Map) else load_config(it, given)))


def _objects(it: Interpreter, owner: Ref | Element, call: Call, given: Map | None) -> Value:
    classes = it.attr(owner, "classes")
    if not isinstance(classes, Seq):
        return UNKNOWN
    return Seq(tuple(_parsed(it, item, call, given) for item in classes.items))


def _parsed(it: Interpreter, cls: Value, call: Call, given: Map | None) -> Value:
    """Return an object of one class, filled from what is given, or from the launch's arguments."""
    plain = call.with_arguments()
    if isinstance(cls, Class):
        ref = instantiate(it, cls, plain)
        base = it.library_base(cls.key)
    elif isinstance(cls, ExternalName) and is_arguments_class(cls.name):
        ref = it.allocate(HeapObject("arguments", call.place, {"__name__": Const(cls.name)}))
        base = cls.name
    else:
        return it.allocate(HeapObject("namespace", call.place))
    if not isinstance(ref, Ref):
        return ref
    thing = it.thing(ref)
    takes_all = is_arguments_class(base)
    if given is None:
        overlay_arguments(it, ref)
    else:
        fits = ((str(name), value) for name, value in given.items)
        it.change(
            ref.id, **{name: value for name, value in fits if takes_all or (thing and name in thing.attrs)}
        )
    if takes_all:
        it.change(ref.id, parsed=TRUE)
        _finish(it, ref, base, plain)
    return ref


def add_arguments(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Note simple_parsing's `add_arguments(Config, dest="config")`: an object of it among the parsed."""
    dest = as_text(call.get("dest", 1))
    if call.args and dest and isinstance(owner, Ref):
        for cls in list_values(call.args[0]):
            it.change(owner.id, **{f"default:{dest}": _parsed(it, cls, call, Map(()))})
    return NONE


def overlay_arguments(it: Interpreter, made: Value) -> None:
    """Put the launch's own arguments over the defaults, for what looks like a switch or a plain value."""
    args = it.target.args
    thing = it.thing(made)
    if thing is None or not isinstance(made, Ref):
        return
    names = {*thing.attrs, *_SWITCHES} if thing.kind == "arguments" else set(thing.attrs)
    for name in names:
        if name.startswith("__"):
            continue
        value = thing.attrs.get(name, NONE)
        if name in _SWITCHES or (isinstance(value, Const) and isinstance(value.value, bool)):
            given = find_switch((*(args or ()), *it.target.switches), name)
        else:
            given = next((Const(text) for _, text in [*find_options(args, name)][::-1] if text), None)
        if given is None and args is None and value in (NONE, Const("")) and thing.kind != "arguments":
            given = join((value, UNKNOWN))  # of argparse's options too: this one may well be given
        if given is not None:
            it.change(made.id, **{name: given})
