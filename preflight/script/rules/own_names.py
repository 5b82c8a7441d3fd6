"""What a script itself calls its things: what a fix says to write can run in it."""

import ast

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import unparse
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import list_values

_WRITTEN = re.compile(r"f([\"'])cuda:\{[^{}\"']*\}\1|([\"'])cuda:\d+\2")
_SCALES = re.compile(r"([\w.]+)\.scale\(")
_DIVIDES = {"accelerator": "prepare", "fabric": "setup_dataloaders"}
"""What gives each rank its part of a loader, by what makes the ranks."""
_MANY = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Tuple)


def name_of(it: Interpreter, kind: str, frame: int | None) -> str:
    """Return what a frame calls a thing of a kind, `self.accelerator` too; "" where it has no name for it."""
    while frame is not None:
        for name, value in it.state.frames.get(frame, {}).items():
            for item in list_values(value):
                if it.kind(item) == kind:
                    return name
                attributes = getattr(it.thing(item), "attrs", {}) if name == "self" else {}
                for word, part in attributes.items():
                    if it.kind(part) == kind and word.isidentifier():
                        return f"self.{word}"
        frame = it.parents.get(frame)
    return ""


def get_assigned_name(it: Interpreter, place: CodeLocation, *, of_module: bool = False) -> str:
    """Return the name that a statement gives what it makes; "" for none, or one of a function if asked."""
    source = it.sources.get(place.path)
    nodes = it.sources.parser.nodes(source.tree) if source is not None else []
    for node in reversed([each for each in nodes if isinstance(each, (ast.Assign, ast.AnnAssign))]):
        if node.lineno <= place.line <= (node.end_lineno or 0) and not (of_module and node.col_offset):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            is_name = isinstance(target, (ast.Name, ast.Attribute)) and not isinstance(node.value, _MANY)
            name = unparse(target) if is_name else ""
            maker = unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
            return f"{name}.sampler" if name and maker.endswith("Loader") else name
    return ""


def call_at(it: Interpreter, place: CodeLocation) -> ast.Call | None:
    """Return the call at a place."""
    source = it.sources.get(place.path)
    calls = it.sources.parser.list_nodes(source.tree, ast.Call) if source is not None else []
    near = (node for node in calls if node.lineno == place.line)
    return next((node for node in near if source is not None and source.place(node) == place), None)


def find_call_words(it: Interpreter, place: CodeLocation) -> str:
    """Return the words of a call at a place."""
    node = call_at(it, place)
    return unparse(node) if node is not None else "it"


def _calls_from(it: Interpreter, place: CodeLocation) -> list[tuple[ast.Call, CodeLocation]]:
    source = it.sources.get(place.path)
    calls = it.sources.parser.list_nodes(source.tree, ast.Call) if source is not None else []
    behind = sorted((node for node in calls if node.lineno >= place.line), key=lambda each: each.lineno)
    return [(node, source.place(node)) for node in behind] if source is not None else []


def step_at(it: Interpreter, place: CodeLocation) -> tuple[str, str]:
    """Return the names of the scaler and optimizer of a step at a place, or else of the next behind it."""
    for node, at in _calls_from(it, place):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "step":
            owner = unparse(node.func.value)
            if node.args and "scal" in owner.lower():
                return owner, unparse(node.args[0])
            if at == place:
                source = it.sources.get(place.path)
                before = "\n".join(source.lines[: place.line]) if source is not None else ""
                return next(reversed(_SCALES.findall(before)), "scaler"), owner
    return "scaler", "optimizer"


def describe_own_device(it: Interpreter, place: CodeLocation, frame: int | None) -> str:
    """Return the rank's own device in words that can run at a place, of a frame or else of its module."""
    if not place.path.endswith(".py"):  # of a configuration, in which nothing runs
        return "no GPU's number in this file: the script that reads it takes it from LOCAL_RANK"
    name = name_of(it, "accelerator", it.modules.get(place.path) if frame is None else frame)
    if name:
        return f"{name}.device"
    source = it.sources.get(place.path)
    written = _WRITTEN.search(source.lines[place.line - 1]) if source is not None else None
    own = "rank" if it.target.spawns else "os.environ.get('LOCAL_RANK', 0)"  # which one process lacks
    if source is not None and source.lines[place.line - 1][place.column - 1 :][:1].isdigit():
        return own if own == "rank" else f"int({own})"  # a number, which text with "cuda:" may be made of
    if written is None:
        return f'torch.device("cuda", {own})' if own == "rank" else f'torch.device("cuda", int({own}))'
    return f'f"cuda:{{{own}}}" in place of {written[0]}'


def describe_division(it: Interpreter, loader: HeapObject, *, iterable: bool) -> str:
    """Return what gives each rank its part of a loader, by what the script makes its ranks with."""
    name = get_assigned_name(it, loader.place).removesuffix(".sampler")
    made = {thing.kind for thing in it.state.heap.values()}
    for kind in _DIVIDES.keys() & made:
        call = f"{name_of(it, kind, it.frame) or kind}.{_DIVIDES[kind]}"
        return f"{name} = {call}({name})" if name else f"{call}(...) of what this returns"
    if iterable:
        return "itertools.islice(items, dist.get_rank(), None, dist.get_world_size()) in __iter__"
    node = call_at(it, loader.place)
    given = {word.arg: unparse(word.value) for word in node.keywords} if node is not None else {}
    data = unparse(node.args[0]) if node is not None and node.args else given.get("dataset", "dataset")
    instead = next((word for word in ("batch_sampler", "sampler", "shuffle") if word in given), "")
    instead = f" in place of {instead}={given[instead]}" if instead else ""
    epochs = f"{name or 'loader'}.sampler.set_epoch(epoch) before each epoch"
    return f"sampler=DistributedSampler({data}){instead}; {epochs}"
