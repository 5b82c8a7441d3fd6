"""Python's own library: the environment, argparse, dataclasses, builtins."""

import ast
import posixpath
from dataclasses import replace
from functools import partial, reduce

from preflight.script.interpreter import arguments
from preflight.script.interpreter.assignments import set_attribute
from preflight.script.interpreter.attributes import get_attribute
from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.classes import enter_context, leave_context
from preflight.script.interpreter.config_files import ENDINGS, load_config, parse_text_value
from preflight.script.interpreter.contexts import STACK, list_context_kinds, note_autocast
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.interpreter.loops import leave_loops
from preflight.script.interpreter.unreached_code import note_module_name
from preflight.script.interpreter.written_files import open_file
from preflight.script.libraries import class_registries
from preflight.script.libraries.casts import list_parts
from preflight.script.values import (
    Class,
    Const,
    Dtype,
    Element,
    ExternalName,
    Map,
    Method,
    Module,
    RankValue,
    Ref,
    Seq,
    Value,
)
from preflight.script.values.constants import FALSE, NONE, OF_RANK, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import (
    MAX_ALTERNATIVES,
    as_bool,
    as_iterable,
    as_text,
    build_map,
    is_by_rank,
    merge_maps,
)


def _number(convert: type[int] | type[float]) -> CallModel:
    def model(_it: Interpreter, call: Call) -> Value:
        value = call.first
        if isinstance(value, Const) and isinstance(value.value, (str, int, float)):
            try:
                return Const(convert(value.value), value.place)
            except (ValueError, OverflowError):
                return UNKNOWN
        return value if convert is int and isinstance(value, RankValue) else UNKNOWN

    return model


def _str(_it: Interpreter, call: Call) -> Value:
    value = call.first
    if isinstance(value, Const):
        return Const(str(value.value))
    if isinstance(value, Dtype):
        return Const(f"torch.{value.name}")
    return value if isinstance(value, RankValue) else UNKNOWN


def _bool(_it: Interpreter, call: Call) -> Value:
    value = call.args[0] if call.args else FALSE
    return Const(bool(value.value)) if isinstance(value, Const) else UNKNOWN


def _same(it: Interpreter, call: Call, *, again: bool = False) -> Value:
    """list(x), tuple(x), iter(x): what they hold is what x holds."""
    value = call.args[0] if call.args else Seq(())
    if isinstance(value, Ref) and it.kind(value) == "loader":
        if it.loop_depth or again:
            it.change(value.id, restarts=TRUE)
        return value  # iter(loader), tqdm(loader): what is drawn from it counts where it is drawn
    return value if isinstance(value, (Seq, Element)) else Seq((it.library.element(it, value),), open=True)


def _slice(it: Interpreter, call: Call) -> Value:
    """islice(x, 2): the first of a few known items, or as many of what x holds as it yields."""
    value = call.first
    if any(map(is_by_rank, call.args)):
        return OF_RANK
    if not isinstance(value, Seq):
        return _same(it, call)
    end = call.args[1] if len(call.args) == 2 else UNKNOWN
    if value.open or not isinstance(end, Const) or type(end.value) is not int:
        return Seq(value.items, open=True)
    return Seq(value.items[: max(end.value, 0)])


def _map(it: Interpreter, call: Call) -> Value:
    """map(f, (a, b)): f is called with each of a few known items, or once with any other's."""
    func, items = [*call.args, UNKNOWN, UNKNOWN][:2]
    known = items.items if isinstance(items, Seq) and not items.open else ()
    each = known if 0 < len(known) <= MAX_ALTERNATIVES else (it.library.element(it, items),)
    made = tuple(call_value(it, func, call.with_arguments(item)) for item in each)
    return Seq(made, open=each is not known)


def _range(_it: Interpreter, call: Call) -> Value:
    return Seq((OF_RANK if any(map(is_by_rank, call.args)) else UNKNOWN,), open=True)


def _dict(_it: Interpreter, call: Call) -> Value:
    return merge_maps(build_map(call.args[0]) if call.args else Map(()), call.get_keywords())


def _typed_dict(it: Interpreter, call: Call) -> Value:
    """TypedDict("Options", {...}): a class of dicts. What is made of a class that derives from it is one."""
    return _dict(it, call) if as_text(call.first) is None else ExternalName("builtins.dict")


def _from_keys(_it: Interpreter, call: Call) -> Value:
    """dict.fromkeys(names, value)."""
    value = call.get("value", 1) or NONE
    rows = tuple(Seq((key, value)) for key in getattr(as_iterable(call.first), "items", ()))
    return build_map(Seq(rows, getattr(call.first, "open", True)))


def _chain_map(_it: Interpreter, call: Call) -> Value:
    """ChainMap(first, second): what the first has wins."""
    return reduce(merge_maps, map(build_map, reversed(call.args)), Map(()))


def _default_dict(it: Interpreter, call: Call) -> Value:
    """defaultdict(factory, {...}): what is missing is made by the factory, which is not known to be asked."""
    return _dict(it, replace(call, args=call.args[1:], open=True)) if call.args else Map(())


_PARSERS = (
    *("argparse.ArgumentParser", "simple_parsing.ArgumentParser", "jsonargparse.ArgumentParser"),
    *("configargparse.ArgumentParser", "configargparse.ArgParser", "configargparse.Parser"),
)
_TOML = ("tomllib", "tomli", "toml")
_MAPPINGS = (
    *("builtins.dict", "collections.OrderedDict", "addict.Dict", "attrdict.AttrDict", "box.Box"),
    *("easydict.EasyDict", "ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict"),
    *("mmengine.Config", "mmengine.ConfigDict", "munch.Munch", "yacs.config.CfgNode"),
    *("configparser.ConfigParser", "configparser.RawConfigParser"),
    *("typing.TypedDict", "typing_extensions.TypedDict"),
)
"""Dictionaries, most of them with their entries as attributes."""


def _super(it: Interpreter, _call: Call) -> Value:
    names = it.state.frames.get(it.frame, {})
    first = next(iter(names.values()), UNKNOWN)
    return Method(first, "super") if isinstance(first, Ref) else UNKNOWN


def _deepcopy(it: Interpreter, call: Call) -> Value:
    """A copy is cast, saved and averaged without harm to the original and its parts: nothing trains it."""
    value = call.first
    thing = it.thing(value) if isinstance(value, Ref) else None
    if thing is None:
        return value if isinstance(value, (Const, Seq, Map)) else UNKNOWN
    copies: dict[int, Ref] = {}
    for number in list_parts(it, value.id) if isinstance(value, Ref) else ():
        part = it.state.heap[number].with_changes(optimized=FALSE, recast=FALSE, role=Const("copy"))
        copies[number] = it.allocate(part)
    for copied in copies.values():
        held = it.state.heap[copied.id].attrs.items()
        it.change(copied.id, **{name: copies.get(item.id, item) for name, item in held if type(item) is Ref})
    return next(iter(copies.values()))


def _open(it: Interpreter, call: Call) -> Value:
    path = call.get("file", 0) or UNKNOWN
    return open_file(it, path, call.get("mode", 1), call)


def _path(_it: Interpreter, call: Call) -> Value:
    """pathlib.Path(...) and os.path.join(...) of known words are their text."""
    words = [word for item in call.args if (word := as_text(item)) is not None]
    if RankValue in map(type, call.args):
        return RankValue()
    return Const(posixpath.join(*words)) if words and len(words) == len(call.args) else UNKNOWN


def _module(it: Interpreter, call: Call) -> Value:
    """importlib.import_module("configs.small"): a module of the script's own, or the name of a library's."""
    name = as_text(call.get("name", 0) or UNKNOWN)
    if name is None:
        note_module_name(it, call.node.args[0] if call.node.args else ast.Constant(None))
        return UNKNOWN
    source = it.sources.find_import(name.lstrip("."), len(name) - len(name.lstrip(".")), it.source)
    if source is None:
        return UNKNOWN if name.startswith(".") else ExternalName(name)
    it.module_frame(source)
    return Module(source.path)


def _same_text(_it: Interpreter, call: Call) -> Value:
    return call.first


def _dirname(_it: Interpreter, call: Call) -> Value:
    text = as_text(call.first)
    return UNKNOWN if text is None else Const(posixpath.dirname(text))


def _config(it: Interpreter, call: Call) -> Value:
    """yaml.safe_load(f), json.load(f), OmegaConf.load(path): what lies beside the script is read."""
    given = call.first
    thing = it.thing(given) if isinstance(given, Ref) else None
    return load_config(it, thing.get("path") if thing is not None and thing.kind == "file" else given)


def _loads(ending: str) -> CallModel:
    """json.loads('{...}') and the like: a text of the script, or of a file that it has read."""

    def handle(it: Interpreter, call: Call) -> Value:
        given = call.first
        if isinstance(given, Const) and isinstance(given.value, str) and not given.value.endswith(ENDINGS):
            return parse_text_value(it, given, ending)
        return _config(it, call)

    return handle


def _file_itself(_it: Interpreter, owner: Ref | Element, _call: Call) -> Value:
    return owner


def _parse_args(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """parser.parse_args(namespace=options): what these have of their own is kept if no word changes it."""
    made, given = arguments.parse_args(it, owner, call), call.get("namespace", 1)
    if not isinstance(given, (Ref, Class)) or (thing := it.thing(made)) is None:
        return made
    plain = it.thing(arguments.parse_args(it, owner, replace(call, args=(Seq(()),), kwargs={})))
    for name, value in thing.attrs.items():
        if get_attribute(it, given, name, call.node) == UNKNOWN or (plain and value != plain.get(name)):
            set_attribute(it, given, name, value, call.node)
    return given


def _enter_context(it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    """ExitStack.enter_context(...): what follows in the block is in that context too."""
    for node in call.node.args[:1]:
        it.contexts += list_context_kinds(it, node, call.first)
    note_autocast(it, call.first)
    return enter_context(it, call.first, call.node)


def _at_end(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.exits.append((owner, tuple(it.contexts), call))
    return call.first


def _exit(it: Interpreter, call: Call) -> Value:
    status = call.get("code", 0) or call.get("status") or NONE
    fails = "except" in it.contexts or as_bool(status) is True
    leave_loops(it, call.place, it.loops, how="fails" if fails else "")
    it.state.dead = True
    return UNKNOWN


_BARS = (
    *(f"tqdm{package}.tqdm" for package in ("", ".auto", ".autonotebook", ".notebook", ".rich", ".std")),
    *("tqdm.rich.tqdm_rich", "tqdm.notebook.tqdm_notebook", "tqdm.tqdm_notebook"),
)
"""Progress bars around what a loop goes over."""

CALLS: dict[str, CallModel] = {
    **class_registries.CALLS,
    "builtins.int": _number(int),
    "builtins.float": _number(float),
    "builtins.str": _str,
    "builtins.bool": _bool,
    **dict.fromkeys(("builtins.set", "builtins.frozenset", "builtins.list", "builtins.tuple"), _same),
    **dict.fromkeys(("builtins.iter", "rich.progress.track", *_BARS), _same),
    "itertools.cycle": partial(_same, again=True),
    "itertools.islice": _slice,
    **{
        f"itertools.{name}while": lambda it, call: _same(it, call.with_arguments(*call.args[1:]))
        for name in ("take", "drop")
    },
    "builtins.map": _map,
    **dict.fromkeys(("builtins.range", "tqdm.trange", "tqdm.auto.trange"), _range),
    **dict.fromkeys((*_MAPPINGS, "types.MappingProxyType", "collections.UserDict"), _dict),
    **dict.fromkeys(("typing.TypedDict", "typing_extensions.TypedDict"), _typed_dict),
    "collections.defaultdict": _default_dict,
    "collections.ChainMap": _chain_map,
    "builtins.dict.fromkeys": _from_keys,
    "asyncio.run": _same_text,
    **dict.fromkeys(("importlib.import_module", "builtins.__import__"), _module),
    "builtins.super": _super,
    **dict.fromkeys(("copy.deepcopy", "copy.copy"), _deepcopy),
    **dict.fromkeys(("builtins.open", "io.open"), _open),
    **dict.fromkeys(("pathlib.Path", "os.path.join"), _path),
    **dict.fromkeys(("os.path.abspath", "os.path.realpath", "os.path.expanduser"), _same_text),
    "os.path.dirname": _dirname,
    **dict.fromkeys(("yaml.safe_load", "yaml.load", "yaml.full_load", "json.loads"), _loads(".json")),
    **{f"{name}.loads": _loads(".toml") for name in _TOML},
    **{f"{name}.load": _config for name in (*_TOML, "json")},
    "omegaconf.OmegaConf.load": _config,
    "types.SimpleNamespace": lambda it, call: it.allocate(
        HeapObject("namespace", call.place, dict(call.kwargs))
    ),
    **dict.fromkeys(("sys.exit", "os._exit", "builtins.exit", "builtins.quit"), _exit),
}

METHODS: dict[tuple[str, str], MethodModel] = {
    **class_registries.METHODS,
    ("file", "read"): _file_itself,
    ("file", "__enter__"): _file_itself,
    (STACK, "enter_context"): _enter_context,
    (STACK, "callback"): _at_end,
    (STACK, "close"): lambda it, owner, call: leave_context(it, owner, call.node),
    ("parser", "add_argument"): arguments.add_argument,
    ("parser", "add_argument_group"): arguments.return_parser,
    ("parser", "add_mutually_exclusive_group"): arguments.make_exclusive_group,
    ("parser", "set_defaults"): arguments.set_defaults,
    ("parser", "add_subparsers"): arguments.add_subparsers,
    ("subparsers", "add_parser"): arguments.add_parser,
    ("parser", "parse_args"): _parse_args,
    ("parser", "parse_known_args"): lambda it, owner, call: Seq(
        (_parse_args(it, owner, call), arguments.list_words_left(it, owner, call))
    ),
    ("typed options", "parse_args"): _file_itself,
}

CLASSES = {
    **class_registries.CLASSES,
    **dict.fromkeys(_PARSERS, "parser"),
    "argparse.Namespace": "namespace",
    "contextlib.ExitStack": STACK,
    "tap.Tap": "typed options",
    **dict.fromkeys(_MAPPINGS, "mapping"),
}

CONSTRUCT: dict[str, ConstructorModel] = {
    "namespace": lambda it, ref, _name, call: it.change(ref.id, **call.kwargs),
    "parser": arguments.inherit_parents,
}
