"""Python's own library: the environment, argparse, dataclasses, builtins."""

import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING

from preflight.script.interpreter import arguments
from preflight.script.interpreter.calls import invoke
from preflight.script.interpreter.config_files import loaded
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.values import (
    FALSE,
    MAX_ALTERNATIVES,
    NONE,
    UNKNOWN,
    Const,
    Dtype,
    Element,
    ExternalName,
    HeapObject,
    Map,
    Method,
    RankValue,
    Ref,
    Seq,
    Value,
    alternatives,
    join,
    merged,
    text_of,
    truth,
)

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter


def _int(it: "Interpreter", call: Call) -> Value:
    del it
    value = call.args[0] if call.args else UNKNOWN
    if isinstance(value, Const) and isinstance(value.value, (str, int, float)):
        try:
            return Const(int(value.value))
        except (ValueError, OverflowError):
            return UNKNOWN
    return value if isinstance(value, RankValue) else UNKNOWN


def _float(it: "Interpreter", call: Call) -> Value:
    del it
    value = call.args[0] if call.args else UNKNOWN
    if isinstance(value, Const) and isinstance(value.value, (str, int, float)):
        try:
            return Const(float(value.value))
        except (ValueError, OverflowError):
            return UNKNOWN
    return UNKNOWN


def _str(it: "Interpreter", call: Call) -> Value:
    del it
    value = call.args[0] if call.args else UNKNOWN
    if isinstance(value, Const):
        return Const(str(value.value))
    if isinstance(value, Dtype):
        return Const(f"torch.{value.name}")
    return value if isinstance(value, RankValue) else UNKNOWN


def _bool(it: "Interpreter", call: Call) -> Value:
    del it
    value = call.args[0] if call.args else FALSE
    return Const(bool(value.value)) if isinstance(value, Const) else UNKNOWN


def _any(it: "Interpreter", call: Call) -> Value:
    del it
    return _quantified(call, decides=True)


def _all(it: "Interpreter", call: Call) -> Value:
    del it
    return _quantified(call, decides=False)


def _quantified(call: Call, *, decides: bool) -> Value:
    """Return what `any` or `all` gives: one item that `decides` is enough, else each must be known."""
    given = call.args[0] if call.args else UNKNOWN
    if not isinstance(given, Seq) or given.open:
        return UNKNOWN
    answers = [truth(item) for item in given.items]
    if decides in answers:
        return Const(decides)
    return UNKNOWN if None in answers else Const(not decides)


def _getattr(it: "Interpreter", call: Call) -> Value:
    from preflight.script.interpreter.expressions import get_attribute  # noqa: PLC0415 - it imports the interpreter

    name = text_of(call.args[1]) if len(call.args) > 1 else None
    if name is None:
        # Some class of the library, whichever: what is loaded through it is a model if anything is trained.
        of_transformers = bool(call.args) and call.args[0] == ExternalName("transformers")
        return ExternalName("transformers.PreTrainedModel") if of_transformers else UNKNOWN
    found = get_attribute(it, call.args[0], name, call.node)
    fallback = call.args[2] if len(call.args) > 2 else None
    if fallback is not None and (found == UNKNOWN or isinstance(found, ExternalName)):
        return join((fallback, UNKNOWN))
    return found


def _setattr(it: "Interpreter", call: Call) -> Value:
    name = text_of(call.args[1]) if len(call.args) > 2 else None
    if name is not None and isinstance(call.args[0], Ref):
        it.change(call.args[0].id, **{name: call.args[2]})
    return NONE


def _same(it: "Interpreter", call: Call) -> Value:
    """list(x), tuple(x), iter(x): what they hold is what x holds."""
    value = call.args[0] if call.args else Seq(())
    return value if isinstance(value, (Seq, Element)) else Seq((it.library.element(it, value),), open=True)


def _reordered(it: "Interpreter", call: Call) -> Value:
    """sorted(x), reversed(x): what they hold is what x holds, and any of it may come first."""
    value = _same(it, call)
    if not isinstance(value, Seq) or len(value.items) < 2:
        return value
    return Seq((join(value.items),) * len(value.items), value.open)


def _filter(it: "Interpreter", call: Call) -> Value:
    """filter(lambda p: p.requires_grad, model.parameters()): parameters of that model still."""
    value = call.args[1] if len(call.args) > 1 else UNKNOWN
    return value if isinstance(value, Element) else Seq((it.library.element(it, value),), open=True)


def _next(it: "Interpreter", call: Call) -> Value:
    return it.library.element(it, call.args[0]) if call.args else UNKNOWN


def _enumerate(it: "Interpreter", call: Call) -> Value:
    item = it.library.element(it, call.args[0]) if call.args else UNKNOWN
    return Seq((Seq((UNKNOWN, item)),), open=True)


def _map(it: "Interpreter", call: Call) -> Value:
    """map(f, (a, b)): f is called with each of a few known items, or once with any other's."""
    func, items = [*call.args[:2], UNKNOWN, UNKNOWN][:2]
    known = items.items if isinstance(items, Seq) and not items.open else ()
    each = known if 0 < len(known) <= MAX_ALTERNATIVES else (it.library.element(it, items),)
    made = tuple(invoke(it, func, Call(call.node, call.place, (item,), {}, {}, open=False)) for item in each)
    return Seq(made, open=each is not known)


def _zip(it: "Interpreter", call: Call) -> Value:
    return Seq((Seq(tuple(it.library.element(it, item) for item in call.args)),), open=True)


def _range(it: "Interpreter", call: Call) -> Value:
    del it, call
    return Seq((UNKNOWN,), open=True)


def _dict(it: "Interpreter", call: Call) -> Value:
    del it
    first = call.args[0] if call.args else Map(())
    return merged(first if isinstance(first, Map) else Map((), open=True), call.named())


_MAPPINGS = (
    *("builtins.dict", "collections.OrderedDict", "addict.Dict", "attrdict.AttrDict", "box.Box"),
    *("easydict.EasyDict", "ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict"),
    *("mmengine.Config", "mmengine.ConfigDict", "munch.Munch", "yacs.config.CfgNode"),
)
"""Dictionaries, most of them with their entries as attributes."""


def _vars(it: "Interpreter", call: Call) -> Value:
    thing = it.thing(call.args[0]) if call.args else None
    if thing is None:
        return UNKNOWN
    return Map(
        tuple((name, value) for name, value in thing.attrs.items() if not name.startswith("__")), open=True
    )


def _super(it: "Interpreter", call: Call) -> Value:
    del call
    names = it.state.frames.get(it.frame, {})
    first = next(iter(names.values()), UNKNOWN)
    return Method(first, "super") if isinstance(first, Ref) else UNKNOWN


def _deepcopy(it: "Interpreter", call: Call) -> Value:
    """A copy is cast, saved and averaged without harm to the original: no optimizer trains it."""
    value = call.args[0] if call.args else UNKNOWN
    thing = it.thing(value) if isinstance(value, Ref) else None
    if thing is None:
        return value if isinstance(value, (Const, Seq, Map)) else UNKNOWN
    return it.new(thing.having(optimized=FALSE, recast=FALSE, role=Const("copy")))


def _field(it: "Interpreter", call: Call) -> Value:
    default = call.get("default")
    if default is not None:
        return default
    factory = call.get("default_factory")
    return invoke(it, factory, Call(call.node, call.place, (), {}, {}, open=False)) if factory else UNKNOWN


def _partial(it: "Interpreter", call: Call) -> Value:
    """functools.partial(f, ...): what it was given is put before what it will be called with."""
    if not call.args:
        return UNKNOWN
    return it.new(HeapObject("partial", call.place, {"func": call.args[0], "given": Const(it.keep(call))}))


def _call_partial(it: "Interpreter", owner: Ref | Element, call: Call) -> Value:
    thing = it.thing(owner)
    number = thing.get("given") if thing else NONE
    if thing is None or not isinstance(number, Const) or not isinstance(number.value, int):
        return UNKNOWN
    before = it.kept[number.value]
    whole = Call(
        call.node,
        call.place,
        (*before.args[1:], *call.args),
        {**before.kwargs, **call.kwargs},
        {**before.places, **call.places},
        open=before.open or call.open,
    )
    return join(invoke(it, item, whole) for item in alternatives(thing.get("func")))


def _open(it: "Interpreter", call: Call) -> Value:
    return it.new(HeapObject("file", call.place, {"path": call.get("file", 0) or UNKNOWN}))


def _path(it: "Interpreter", call: Call) -> Value:
    """pathlib.Path(...) and os.path.join(...) of known words are their text."""
    words = [word for item in call.args if (word := text_of(item)) is not None]
    del it
    return Const(posixpath.join(*words)) if words and len(words) == len(call.args) else UNKNOWN


def _same_text(it: "Interpreter", call: Call) -> Value:
    del it
    return call.args[0] if call.args else UNKNOWN


def _dirname(it: "Interpreter", call: Call) -> Value:
    del it
    text = text_of(call.args[0]) if call.args else None
    return UNKNOWN if text is None else Const(posixpath.dirname(text))


def _config(it: "Interpreter", call: Call) -> Value:
    """yaml.safe_load(f), json.load(f), OmegaConf.load(path): what lies beside the script is read."""
    given = call.args[0] if call.args else UNKNOWN
    thing = it.thing(given) if isinstance(given, Ref) else None
    return loaded(it, thing.get("path") if thing is not None and thing.kind == "file" else given)


def _file_itself(it: "Interpreter", owner: Ref | Element, call: Call) -> Value:
    del it, call
    return owner


def _exit(it: "Interpreter", call: Call) -> Value:
    del call
    it.state.dead = True
    return UNKNOWN


CALLS: dict[str, Callable[["Interpreter", Call], Value]] = {
    "builtins.int": _int,
    "builtins.float": _float,
    "builtins.str": _str,
    "builtins.bool": _bool,
    "builtins.any": _any,
    "builtins.all": _all,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.list": _same,
    "builtins.tuple": _same,
    "builtins.iter": _same,
    "builtins.reversed": _reordered,
    "builtins.sorted": _reordered,
    "builtins.filter": _filter,
    "builtins.next": _next,
    "builtins.enumerate": _enumerate,
    "builtins.map": _map,
    "builtins.zip": _zip,
    "builtins.range": _range,
    **dict.fromkeys(_MAPPINGS, _dict),
    "builtins.vars": _vars,
    "builtins.super": _super,
    "tqdm.tqdm": _same,
    "tqdm.auto.tqdm": _same,
    "tqdm.trange": _range,
    "tqdm.auto.trange": _range,
    "itertools.chain": lambda it, call: Seq(
        tuple(it.library.element(it, item) for item in call.args), open=True
    ),
    "copy.deepcopy": _deepcopy,
    "copy.copy": _deepcopy,
    "dataclasses.field": _field,
    "functools.partial": _partial,
    "builtins.open": _open,
    "io.open": _open,
    "pathlib.Path": _path,
    "os.path.join": _path,
    "os.path.abspath": _same_text,
    "os.path.realpath": _same_text,
    "os.path.expanduser": _same_text,
    "os.path.dirname": _dirname,
    **dict.fromkeys(("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "json.loads"), _config),
    "omegaconf.OmegaConf.load": _config,
    "omegaconf.OmegaConf.create": lambda _it, call: call.args[0] if call.args else UNKNOWN,
    "omegaconf.OmegaConf.to_container": lambda _it, call: call.args[0] if call.args else UNKNOWN,
    "types.SimpleNamespace": lambda it, call: it.new(HeapObject("namespace", call.place, dict(call.kwargs))),
    "sys.exit": _exit,
    "builtins.exit": _exit,
    "builtins.quit": _exit,
}

METHODS: dict[tuple[str, str], Callable[["Interpreter", Ref | Element, Call], Value]] = {
    ("file", "read"): _file_itself,
    ("file", "__enter__"): _file_itself,
    ("partial", "__call__"): _call_partial,
    ("parser", "add_argument"): arguments.add_argument,
    ("parser", "add_argument_group"): arguments.same_parser,
    ("parser", "add_mutually_exclusive_group"): arguments.same_parser,
    ("parser", "set_defaults"): arguments.set_defaults,
    ("parser", "parse_args"): arguments.parse_args,
    ("parser", "parse_known_args"): arguments.parse_known_args,
    ("typed options", "parse_args"): _file_itself,
}

CLASSES = {
    "argparse.ArgumentParser": "parser",
    "argparse.Namespace": "namespace",
    "tap.Tap": "typed options",
    **dict.fromkeys(_MAPPINGS, "mapping"),
}

CONSTRUCT: dict[str, Callable[["Interpreter", Ref, str, Call], None]] = {
    "namespace": lambda it, ref, _name, call: it.change(ref.id, **call.kwargs),
    "parser": arguments.with_parents,
}
