"""Calls: the script's own functions are followed where they are called; libraries have models."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

from preflight import regex as re
from preflight.script.interpreter import (
    assignments,
    branches,
    choices,
    classes,
    contexts,
    decorators,
    rank_values,
    unknown_steps,
    written_files,
)
from preflight.script.interpreter.call_arguments import read_arguments
from preflight.script.interpreter.call_cache import SAME, is_plain
from preflight.script.interpreter.events import THROUGH, Call, FuncInfo, Loop
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.state import WaysOut
from preflight.script.syntax_trees import unparse
from preflight.script.values import (
    Class,
    Dtype,
    Element,
    ExternalName,
    Func,
    Map,
    Method,
    OneOf,
    Ref,
    Scalar,
    Seq,
    Unknown,
    Value,
)
from preflight.script.values.constants import NONE, ON_CPU, TRUE, UNKNOWN
from preflight.script.values.operations import join, list_values

_MAX_DEPTH = 12  # calls in one another that are followed
MAY_HOLD = frozenset({Ref, Seq, Map, OneOf})  # kinds that are or hold objects
_SHORT = 20  # lines of a function that is followed once more within itself: it goes over what a batch holds
_Def = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def define_function(it: Interpreter, node: _Def, decorators: tuple[Value, ...]) -> Func:
    """Return a function that the script defines."""
    written = (*node.args.defaults, *filter(None, node.args.kw_defaults))
    defaults = {
        id(each): it.evaluate(each) for each in written if isinstance(each, (ast.Name, ast.Attribute))
    }
    it.functions[id(node)] = FuncInfo(node, it.source, decorators, defaults)
    it.captured.add(it.frame)
    return Func(id(node), it.frame)


def evaluate_call(it: Interpreter, node: ast.Call) -> Value:
    """Return what a call gives."""
    method = node.func if isinstance(node.func, ast.Attribute) else None
    name = method.attr if method else ""
    if method and name == "backward" and _is_scaled(it, method.value):
        it.state.scaled = True
        return NONE
    func = it.evaluate(node.func)
    kind = type(func)
    kept = isinstance(func, ExternalName) and func.name in _KEPT
    seen = read_arguments(it, node, passes=kind is Func or kind is Class or kept)
    if name == "backward" and kind is Unknown and branches.is_scaling(node):
        if branches.scales_loss(node):
            it.state.scaled = True
            it.note("scaler", seen.place)
        return NONE
    if method and isinstance(func, ExternalName) and func.name.startswith("value."):
        return choices.call_builtin_method(it, method.value, func.name.removeprefix("value."), seen)
    if isinstance(func, OneOf):
        return choices.invoke_one_of(it, func, seen)
    if name == "step" and isinstance(func, Func):
        it.library.note_own_step(it, func.bound, seen)
    result = call_value(it, func, seen)
    return rank_values.mark_rank_result(it, func, seen, result)


def _is_scaled(it: Interpreter, node: ast.expr) -> bool:
    """Whether this may be what a GradScaler gave for a loss."""
    return any(isinstance(item, Map) and item.get("__scaled__") for item in list_values(it.evaluate(node)))


def call_value(it: Interpreter, func: Value, seen: "Call") -> Value:
    """Call a value."""
    return _INVOKE.get(type(func), _invoke_other)(it, func, seen)


def _invoke_unknown(it: Interpreter, func: Unknown, seen: "Call") -> Value:
    found = it.library.promote_owner(it, seen)
    return _invoke_other(it, func, seen) if found is None else found


_ASKED = re.compile(r"hasattr\([^\n]*[\"']full_tensor|isinstance\([^\n]*DTensor")
"""Asks whether a tensor is in parts."""


def _may_be_whole(it: Interpreter) -> bool:
    """Whether a function that is called in several places asks for a DTensor before it makes that whole."""
    name = getattr(it.function and it.function.node, "name", "")
    if not name or not it.sources.mention(_ASKED):
        return False
    calls = [
        call.lineno
        for source in it.sources.files()
        for call in it.sources.parser.list_nodes(source.tree, ast.Call)
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == name
    ]
    return len(calls) > 1


def _invoke_other(it: Interpreter, func: Value, seen: "Call") -> Value:
    """Call what is not known, or nothing that can be called; a method's name may say what it does."""
    name = seen.node.func.attr if isinstance(seen.node.func, ast.Attribute) else ""
    if name == "backward":
        it.library.note_raw_backward(it, seen)
    elif name == "unscale_":
        it.state.scaled = False
    elif name == "full_tensor" and not seen.args:
        if not _may_be_whole(it):
            it.emit(seen.event("collective", None, name))  # of a DTensor
    elif isinstance(func, Unknown) and func.on:
        return func  # a method of a tensor, which gives one where it is
    elif name in ("to", "cuda", "cpu") and isinstance(func, Unknown):
        return it.library.move_unknown(it, seen)
    elif name == "set_device":
        it.emit(seen.event("set device", device=UNKNOWN))
        it.state.device_set = True
    elif name in written_files.METHODS:
        return written_files.note_method(it, name, func, seen)
    elif name == "train_test_split":
        return it.library.call(it, f"datasets.Dataset.{name}", seen)
    elif name == "append" and isinstance(seen.node.func, ast.Attribute):
        assignments.begin_list(it, seen.node.func.value, seen.first)
    elif not isinstance(func, Element):
        it.unread_calls.methods.setdefault(name, seen)
        unknown_steps.note_step(it, name, func, seen)
        taint_arguments(it, seen)
    return UNKNOWN


def _call_object(it: Interpreter, ref: Ref, seen: "Call") -> Value:
    method, forward = (classes.find_method(it, ref, name) for name in ("__call__", "forward"))
    if method is not None:
        return call_function(it, method, seen)
    made = it.library.method(it, ref, "__call__", seen)
    if forward is None or it.kind(ref) != "model":
        return made
    dead = it.state.dead
    call_function(it, forward, seen)
    it.state.dead = dead  # what it computes is not known, and so not whether it ends
    return UNKNOWN


def taint_arguments(it: Interpreter, seen: "Call") -> None:
    """Code that cannot be read got these objects: what it did to them is not known."""
    for value in (*seen.args, *seen.kwargs.values()):
        if type(value) is Func:
            it.unread_calls.functions[value.key] = value
        for ref in iterate_refs(value) if type(value) in MAY_HOLD else ():
            if it.thing(ref) is not None:
                it.change(ref.id, touched=TRUE)
                contexts.note_autocast(it, ref)  # ExitStack.enter_context
            if ref.shared:
                it.note(THROUGH, seen.place)


def iterate_refs(value: Value) -> Iterator[Ref]:
    """Yield the objects that a value is or may be, and those in lists and dicts."""
    for item in list_values(value):
        if isinstance(item, Ref):
            yield item
        elif isinstance(item, Seq):
            for inner in item.items:
                yield from iterate_refs(inner) if type(inner) in MAY_HOLD else ()
        elif isinstance(item, Map):
            for _, inner in item.items:
                yield from iterate_refs(inner) if type(inner) in MAY_HOLD else ()


_KEPT = frozenset({"value.get", "value.setdefault", "value.pop", "value.append"})
"""What gives its arguments names, as calls of the script's own do: a device is judged where it is used."""


def call_function(it: Interpreter, func: Func, seen: "Call") -> Value:
    """Read a function of the script with these arguments."""
    info = it.functions.get(func.key)
    it.called.add(func.key)
    if info is None or it.call_depth == _MAX_DEPTH or _in_itself(it, info.node, func.key):
        taint_arguments(it, seen)
        return UNKNOWN
    kwargs = tuple(sorted(seen.kwargs.items(), key=lambda item: item[0]))
    values = (*seen.args, *seen.kwargs.values(), func.bound or NONE)
    signature = (
        func.bound,
        func.frame,
        seen.args,
        kwargs,
        seen.open,
        frozenset(it.contexts),
        it.loop_depth > 0,
        tuple(
            [
                (value.by_rank or value.on) if type(value) is Unknown else type(value) is Ref and value.shared
                for value in values
            ]
        ),
    )
    entry = it.calls.entry(func.key, signature)
    if entry.times >= SAME:
        return entry.result
    barren = it.calls.barren_result(func.key)
    if barren is not None and _is_plain(it, info, func, values):
        return barren
    before, owner = it.calls.events, it.thing(func.bound)
    frame = it.make_frame(func.frame)
    it.call_depth += 1
    with it.enter_source(info.source, frame):
        _bind_parameters(it, info, func, seen, frame)
        result = _run_body(it, info, func.key)
    it.call_depth -= 1
    _give_back(it, info, func, seen, frame)
    it.calls.events += it.thing(func.bound) is not owner  # a setter, which has neither event nor result
    if not it.state.dead:
        it.calls.note(func.key, entry, result, before=before)
    if frame not in it.captured:
        it.state.drop(frame)
    return result


def _is_plain(it: Interpreter, info: "FuncInfo", func: Func, values: tuple[Value, ...]) -> bool:
    """Whether a call passes nothing that rules are about, and need not be followed for what it makes."""
    return (
        func.key not in it.dispatchers
        and getattr(info.node, "name", "") not in ("__init__", "__post_init__", "setup")
        and all(is_plain(value, it.kind) for value in values)
    )


def _in_itself(it: Interpreter, node: _Def, key: int) -> bool:
    """Whether a function is being read already, so often that one more time shows nothing new."""
    times = it.stack.count(key)
    return times > 1 or (times == 1 and (node.end_lineno or node.lineno) - node.lineno > _SHORT)


def _give_back(it: Interpreter, info: "FuncInfo", func: Func, seen: "Call", frame: int) -> None:
    """Give the caller's names the lists and dicts that the function has changed in place."""
    if not (filled := it.filled.pop(frame, None)):
        return
    parameters = [*info.node.args.posonlyargs, *info.node.args.args][func.bound is not None :]
    written: dict[str, ast.expr] = {word.arg: word.value for word in seen.node.keywords if word.arg}
    if len(seen.node.args) == len(seen.args):
        written |= {each.arg: node for each, node in zip(parameters, seen.node.args, strict=False)}
    for name, node in written.items():
        value = it.state.frames.get(frame, {}).get(name) if name in filled else None
        if value is not None and isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            assignments.put_back(it, node, value)


def _run_body(it: Interpreter, info: "FuncInfo", key: int) -> Value:
    if isinstance(info.node, ast.Lambda):
        return it.evaluate(info.node.body)
    outer, depth = (it.ways, it.guard), len(it.contexts)
    it.ways = ways = WaysOut(depth, yields=[], open=it.ways.open)
    it.yielded_drawn = it.drawn
    for item in info.decorators:
        it.contexts.append(contexts.find_context_kind(item) or it.kind(item))
        contexts.note_autocast(it, item)
    if info.decorators:
        it.contexts += contexts.list_decorated_places(info.node)
    it.stack.append(key)
    it.loops.append(Loop(it.place(info.node), depth, len(it.stack), it.frame, len(it.tests)))
    try:
        it.execute(info.node.body)
    finally:
        it.stack.pop()
        it.loops.pop()
        del it.contexts[depth:]
        it.ways, it.guard = outer
    if ways.yields:
        it.drawn = it.yielded_drawn  # a loop over what is yielded draws as the loop around the yield does
    if it.state.dead and not ways.returns:
        return UNKNOWN  # it always raises, as far as can be seen: so does the caller
    result = branches.merge_ways_out(it, info.node.body, ways.returns)
    if not ways.yields:
        return result
    value = join(ways.yields)
    return value if contexts.is_context_manager(info.decorators) else Seq((value,), open=True)


def _bind_parameters(it: Interpreter, info: "FuncInfo", func: Func, seen: "Call", frame: int) -> None:
    arguments = info.node.args
    given = seen.args if func.bound is None else (func.bound, *seen.args)
    positional = [*arguments.posonlyargs, *arguments.args]
    names = {parameter.arg: value for parameter, value in zip(positional, given, strict=False)}
    defaults: dict[str, ast.expr] = {}
    if arguments.defaults:
        for parameter, default in zip(
            positional[-len(arguments.defaults) :], arguments.defaults, strict=True
        ):
            defaults[parameter.arg] = default
    for parameter, maybe in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if maybe is not None:
            defaults[parameter.arg] = maybe
    rest = dict(seen.kwargs)
    for parameter in [*positional[len(given) :], *arguments.kwonlyargs]:
        name = parameter.arg
        if name in rest:
            names[name] = rest.pop(name)
        elif name in defaults:
            held = info.defaults.get(id(defaults[name]))
            known = _default(it, func, defaults[name]) if held is None else held
            names[name] = join((known, UNKNOWN)) if seen.open else known
        else:
            names[name] = rank_values.mark_named_rank(
                it, name, decorators.find_injected_value(it, info, name)
            )
    if arguments.vararg is not None:
        names[arguments.vararg.arg] = Seq(given[len(positional) :], seen.open)
    if arguments.kwarg is not None:
        items: tuple[tuple[Scalar, Value], ...] = tuple(rest.items())
        names[arguments.kwarg.arg] = Map(
            items, seen.open, {name: seen.get_place(str(name)) for name, _ in items}
        )
    it.state.names(frame).update(names)  # only now: a default may be a branch of its own


def _default(it: Interpreter, func: Func, node: ast.expr) -> Value:
    """Return a default that does something, as if it did so where it is used: what it does counts then."""
    outer, it.frame = it.frame, func.frame
    try:
        return it.evaluate(node)
    finally:
        it.frame = outer


_OF_CPU = re.compile(r"\w+\.\w+Tensor")  # torch.FloatTensor(...), none of torch.cuda
_INVOKE: dict[type[Any], Callable[[Interpreter, Any, Call], Value]] = {
    ExternalName: lambda it, func, seen: it.library.call(it, func.name, seen),
    Method: lambda it, func, seen: it.library.method(it, func.owner, func.name, seen),
    Func: call_function,
    Class: lambda it, cls, seen: classes.instantiate(it, cls, seen),  # noqa: PLW0108 - not whole yet
    Ref: _call_object,
    Unknown: _invoke_unknown,
    Dtype: lambda _it, _dtype, seen: ON_CPU if _OF_CPU.fullmatch(unparse(seen.node.func)) else UNKNOWN,
}
