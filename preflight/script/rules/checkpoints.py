"""Rules C502 and C503: names of weights in checkpoints, and where weights are read to."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import RANK_0, UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name, list_stores
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import Source, list_names
from preflight.script.syntax_trees import ByKind, group_by_kind, root_of, unparse, walk
from preflight.script.values import Value
from preflight.script.values.operations import as_text

UNWRAPS = re.compile(
    r"hasattr\([^\n]*[\"'](?:module|_orig_mod)|getattr\([^\n]*[\"'](?:module|_orig_mod)|unwrap(?!_model)|de_?parallel"
    r"|\.module\b[^\n]* (?:if|else|or) |isinstance\([^\n]*(?:Parallel|DDP)|__getattr__"
    r"|class \w+\([^\n]*(?:Parallel|DDP)\b"
)
_LOADS = re.compile("load_state_dict")
_MAY_PREFIX = re.compile(r"DataParallel|torch\.compile\(")
_RENAMES = re.compile(r"[\"'](?:module\.|_orig_mod)|removeprefix|consume_prefix|strict *= *False|\.replace\(")
WRAPPERS = re.compile(r"(?:^|[._])(?:(?:Native|Torch|Apex)?DDP|DistributedDataParallel|DataParallel)$")


def list_given_values(nodes: list[ast.AST], name: str) -> list[tuple[ast.expr, int]]:
    """Return what a function or file gives a name, in its order, with the lines."""
    found: list[tuple[ast.expr, int]] = []
    for node in nodes:
        if type(node) is ast.Assign:
            parts = [part for target in node.targets for part in getattr(target, "elts", [target])]
            if any((part.id if type(part) is ast.Name else unparse(part)) == name for part in parts):
                found.append((node.value, node.lineno))
    return sorted(found, key=lambda each: each[1])


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights that a file has, or that a model takes: the prefix of their names, and how they are found."""

    node: ast.Call
    prefix: str
    key: str  # of the dict that is saved, "" for weights alone
    path: str
    source: Source


@rule("C502", "write", "early write", "end")
def names_that_do_not_fit(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A checkpoint has the names of a wrapper, and is read into a model that is not wrapped, or the reverse.

    state_dict() of DistributedDataParallel puts `module.` before each name, that of a compiled model
    `_orig_mod.`: "Missing key(s) in state_dict ... Unexpected key(s)".
    Source: torch.nn.Module.load_state_dict; torch/_dynamo/eval_frame.py.
    """
    if event.name != "end":
        if event.call is not None and getattr(event.call.node.func, "attr", "") == "save":
            it.note(_SAVED, event.place)
        return
    mention = it.sources.mention
    if not it.notes.get(_SAVED) or not mention(_MAY_PREFIX) or not mention(_LOADS):
        return
    if mention(_RENAMES) or mention(UNWRAPS):
        return
    saved, loaded = list[_Weights](), list[_Weights]()
    for source in (each for each in it.sources.files() if "state_dict" in each.text):
        more = it.sources.parser.find_by_kind(_weights, source.tree)
        saved += [_Weights(*row, source) for row in more[0]]
        loaded += [_Weights(*row, source) for row in more[1]]
    for read in loaded:
        alike = [each for each in saved if each.key == read.key and _may_be_one_file(each, read)]
        prefixes = {each.prefix for each in alike}
        fitting = any(each.key == read.key and each.prefix in prefixes for each in loaded)
        if len(prefixes) == 1 and read.prefix not in prefixes and not fitting:
            written = alike[0]
            at_save = bool(written.prefix)
            first, other = (written, read) if at_save else (read, written)
            where = "are saved with it" if at_save else "are saved without it"
            message = f"names of weights {where}, `{first.prefix}`, and read into a model where they differ"
            inner = "module" if first.prefix == "module." else "_orig_mod"
            owner = unparse(_owner(first.node) or first.node.func)
            owner = owner.rpartition(".")[0] if not at_save else owner
            fix = f"{owner}.{inner}.{'state_dict()' if at_save else 'load_state_dict(...)'}"
            place = first.source.place(first.node)
            yield RuleHit(place, message, fix, Level.WARNING, (other.source.place(other.node),))


_SAVED = "weights are saved"
_OF_OTHERS = re.compile(r"(?i)pretrain|imagenet|teacher|backbone|init")


def _may_be_one_file(saved: _Weights, read: _Weights) -> bool:
    """Whether weights may be read from where they are saved: two different texts are two files."""
    if saved.path == read.path:
        return True
    texts = saved.path[0] in "'\"" and read.path[0] in "'\""
    return bool(read.key) and not texts and not _OF_OTHERS.search(read.path)


_Row = tuple[ast.Call, str, str, str]


def _weights(kinds: ByKind) -> tuple[list[_Row], list[_Row]]:
    """Return what of weights a file saves, and what it reads: call, prefix, key, path."""
    saved, loaded = list[_Row](), list[_Row]()
    calls = {getattr(call.func, "attr", "") for call in kinds.get(ast.Call, ())}
    if calls.isdisjoint({"load_state_dict", "save"}):
        return saved, loaded
    nodes = [root_of(kinds)]
    scopes = [*kinds.get(ast.FunctionDef, ()), *kinds.get(ast.AsyncFunctionDef, ())]
    inner = {id(part) for scope in scopes for part in walk(scope)[1:]}
    for scope in [nodes[0], *scopes]:
        parts = [part for part in walk(scope) if scope is not nodes[0] or id(part) not in inner]
        parts += [each for each in scopes if scope is not nodes[0]]
        for call in (part for part in parts if isinstance(part, ast.Call)):
            name = getattr(call.func, "attr", "")
            if _is_of_torch(call, "save") and len(call.args) > 1:
                saved += _saved(parts, call)
            elif name == "load_state_dict" and len(call.args) == 1 and not call.keywords:
                loaded += _loaded(parts, call)
    return saved, loaded


def _is_of_torch(call: ast.Call, name: str) -> bool:
    owner = getattr(call.func, "value", None) if getattr(call.func, "attr", "") == name else None
    return str(getattr(owner, "id", "")).endswith("torch")


def _saved(parts: list[ast.AST], call: ast.Call) -> Iterator[_Row]:
    what: ast.expr | None = call.args[0]
    if isinstance(what, ast.Name):
        made = list_given_values(parts, what.id)
        what = made[-1][0] if len(made) == 1 else None
    pairs = zip(what.keys, what.values, strict=True) if isinstance(what, ast.Dict) else [(None, what)]
    for key, value in pairs:
        prefix = _prefix(parts, owner, call.lineno) if (owner := _owner(value)) is not None else None
        if prefix is not None and isinstance(value, ast.Call):
            word = str(key.value) if isinstance(key, ast.Constant) else ""
            yield value, prefix, word, unparse(call.args[1])


def _loaded(parts: list[ast.AST], call: ast.Call) -> Iterator[_Row]:
    given, word = call.args[0], ""
    if isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Constant):
        word, given = str(given.slice.value), given.value
    if isinstance(given, ast.Name):
        made = [value for value, line in list_given_values(parts, given.id) if line < call.lineno]
        given = made[-1] if made else given
    if not isinstance(given, ast.Call) or not _is_of_torch(given, "load") or not given.args:
        return
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    prefix = _prefix(parts, owner, call.lineno) if owner is not None else None
    if prefix is not None:
        yield call, prefix, word, unparse(given.args[0])


def _owner(value: ast.expr | None) -> ast.expr | None:
    """Return of what `model.state_dict()` is."""
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "state_dict"
    ):
        return value.func.value
    return None


def _prefix(parts: list[ast.AST], owner: ast.expr, line: int) -> str | None:
    """Return what is before the names of a model's weights, None where that is not known."""
    if isinstance(owner, ast.Call):
        return _made(parts, owner, line)
    if isinstance(owner, ast.Attribute) and owner.attr in ("module", "_orig_mod"):
        return (_prefix(parts, owner.value, line) or "").partition(f"{owner.attr}.")[2]
    name = unparse(owner)
    for value, at in reversed(list_given_values(parts, name)):
        if at >= line:
            continue
        if not isinstance(value, (ast.Name, ast.Attribute, ast.Call)):
            return None
        prefix = _prefix(parts, value, at)
        changed = isinstance(value, ast.Call) and any(getattr(part, "id", "") == name for part in walk(value))
        if prefix != "" or not changed:  # of `model = model.to(device)` those of before
            return prefix
    return None


def _made(parts: list[ast.AST], call: ast.Call, line: int) -> str | None:
    """Return the prefix of what a call makes: a wrapper's, or that of what a function of the file returns."""
    maker = unparse(call.func)
    for own in (part for part in parts if isinstance(part, ast.FunctionDef) and part.name == maker):
        inside = walk(own)[1:]
        returns = (part for part in inside if isinstance(part, ast.Return))
        found = {_prefix(inside, part.value, part.lineno) if part.value else None for part in returns}
        return found.pop() if len(found) == 1 else None
    added = "module." if WRAPPERS.search(maker) else "_orig_mod." if _is_of_torch(call, "compile") else ""
    if not added:
        return None if "prepare" in maker or "setup" in maker else ""
    inner = call.args[0] if call.args else None
    return added + ((isinstance(inner, ast.Name) and _prefix(parts, inner, line)) or "")


@rule("C503", "load without map", "write", "early write", "process group", "accelerator", "end")
def read_onto_the_gpu_of_before(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Every rank reads a checkpoint without map_location, which was saved from a GPU.

    torch.load() then puts the tensors on the GPU that they were saved from: those of all ranks on the first
    one, whose memory runs out or which stays full.
    Source: torch.load's documentation; torch's DDP tutorial.
    """
    if event.name in ("process group", "accelerator"):
        if event.what != "gloo":
            it.note(_GROUP, event.place)
    elif event.name == "load without map":
        read = RANK_0 not in it.contexts and UNCALLED not in it.contexts and event.call
        file = _name_file(it, read.node.args[0], read.first) if read and read.node.args else ""
        for key in _list_filled(it, read.node) if read else ():
            it.note((_READ, _ANY, file), event.place)
            it.note((_READ, key, file), event.place)
    elif event.name != "end":
        write = event.call.node if event.call is not None else None
        at = event.values.get("path")
        named = write is not None and len(write.args) > 1 and not _is_renamed(it, write.args[1])
        file = _name_file(it, write.args[1], at) if write is not None and named else ""
        for key in _list_kept(it, write) if write is not None else ():
            it.note((_STATES, key, file), event.place)
    elif it.notes.get(_GROUP) and it.target.processes != 1:
        for place, saved in _list_read_back(it).items():
            message = "every rank reads this onto the GPU that it was saved from"
            fix = 'map_location="cpu", or the device of the rank'
            yield RuleHit(place, message, fix, Level.WARNING, (saved,))


def _list_read_back(it: Interpreter) -> dict[CodeLocation, CodeLocation]:
    """Return where is read what the script saves, and where it saves it: files of two names are two."""
    keys = [key for key in it.notes if isinstance(key, tuple) and key[0] in (_READ, _STATES)]
    pairs = [(read, state) for read in keys if read[0] == _READ for state in keys if state[0] == _STATES]
    alike = [
        (read, state)
        for read, state in pairs
        if read[1] == state[1] and (not read[2] or not state[2] or read[2] == state[2])
    ]
    places = {at: it.notes[state][0] for read, state in alike for at in it.notes[read]}
    return {} if places and it.sources.mention(_SEES_ONE_GPU) else places


def _is_renamed(it: Interpreter, path: ast.expr) -> bool:
    """Whether the function that writes a file gives it another name then, as it does to replace one whole."""
    moves = (call for call in it.list_nodes(ast.Call) if get_last_name(call) in _RENAMES_FILES)
    return any(unparse(path) in unparse(call) for call in moves)


_RENAMES_FILES = frozenset({"replace", "rename", "renames", "move"})


def _name_file(it: Interpreter, path: ast.expr, value: Value | None = None) -> str:
    """Return the name of a file without its folder, "" where it is not known."""
    if (text := as_text(value)) is not None:
        return text.rpartition("/")[2]
    if isinstance(path, ast.Name):
        stores = it.sources.parser.find(list_stores, it.scope).get(path.id, ())
        path = stores[0][0] if len(stores) == 1 else path
    if isinstance(path, ast.Call) and get_last_name(path) in ("join", "joinpath", "Path") and path.args:
        path = path.args[-1]
    last = path.right if isinstance(path, ast.BinOp) and isinstance(path.op, ast.Div) else path
    return last.value.rpartition("/")[2] if type(last) is ast.Constant and isinstance(last.value, str) else ""


_SEES_ONE_GPU = re.compile(
    r"CUDA_VISIBLE_DEVICES[\"']\] *=|offload_to_cpu|cpu_offload *= *True|\b[tp]p_rank\b"
)
_WITHOUT_TENSORS = re.compile(r"(?i)sched|lr_|scaler|sampler|loader|dataset")
"""Names of what has a state of numbers."""
_GROUP, _READ, _STATES = "ranks read", "read without a map", "states are saved"
_ANY = "any key"  # of a state that is written where it is saved: it may be read by any


def _list_kept(it: Interpreter, save: ast.Call) -> list[object]:
    """Return by which keys a call saves states of weights from a GPU, "" for one alone."""
    names = {part.attr for part in walk(save) if isinstance(part, ast.Attribute)}
    given = save.args[0] if getattr(save.func, "attr", "") == "save" and save.args else None
    if "state_dict" in names:
        written = [
            key for key, value in _list_entries(given) if key is not None and _owner(value) is not None
        ]
        return [] if "cpu" in names else written or [_ANY]
    if isinstance(given, ast.Call):
        return _list_returned(it, given)
    name = unparse(given) if given is not None else ""
    stores = it.sources.parser.find(list_stores, it.scope).get(name, ()) if name else ()
    entries = [entry for value, _ in stores for entry in _list_entries(value)]
    found = [key or "" for key, value in entries if _owner(value) is not None]
    moved = bool(found) and it.sources.parser.find(_moves_to_cpu, it.scope)
    return [] if moved else found


def _list_returned(it: Interpreter, call: ast.Call) -> list[object]:
    """Return by which keys the one function of a call's name returns states of weights, in a dict."""
    functions = it.list_functions([get_last_name(call)])
    nodes = it.sources.parser.nodes(functions[0]) if len(functions) == 1 else []
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    entries = [entry for value in returned for entry in _list_entries(value)]
    found = [key for key, value in entries if key is not None and _owner(value) is not None]
    return [] if found and _moves_to_cpu(nodes) else list(found)


def _moves_to_cpu(nodes: list[ast.AST]) -> bool:
    """Whether code moves something to the CPU: `v.cpu()`, `v.to("cpu")`."""
    calls = (node for node in nodes if isinstance(node, ast.Call))
    moves = (call for call in calls if getattr(call.func, "attr", "") == "to")
    return "cpu" in list_names(nodes) or any(
        getattr(part, "value", "") == "cpu" for call in moves for part in call.args[:1]
    )


def _list_entries(value: ast.expr | None) -> list[tuple[object, ast.expr]]:
    """Return the keys and values of a dict, also `dict(model=...)`; key None for what has none."""
    if isinstance(value, ast.Dict):
        return [
            (getattr(key, "value", None), item) for key, item in zip(value.keys, value.values, strict=True)
        ]
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "dict":
        return [(word.arg, word.value) for word in value.keywords]
    return [(None, value)] if value is not None else []


def _list_filled(it: Interpreter, load: ast.Call) -> list[object]:
    """Return by which keys what is loaded goes to load_state_dict(), "" for all of it.

    None where another load of the function names a device.
    """
    kinds = it.sources.parser.find(group_by_kind, it.scope)
    if any(node.arg == "map_location" for node in kinds.get(ast.keyword, ())):
        return []
    taken = next((node for node in kinds.get(ast.Assign, ()) if node.value is load), None)
    name = getattr(taken.targets[0], "id", "") if taken else ""
    given = [
        node.args[0]
        for node in kinds.get(ast.Call, ())
        if getattr(node.func, "attr", "") == "load_state_dict" and node.args
        if not _WITHOUT_TENSORS.search(unparse(node.func))
    ]
    return [
        getattr(getattr(each, "slice", None), "value", "")
        for each in given
        if any(part is load or (name and getattr(part, "id", "") == name) for part in walk(each))
    ]
