"""What a script itself calls its things: what a fix says to write can run in it."""

import ast

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import alternatives

_MANY = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Tuple)


def name_of(it: Interpreter, kind: str, frame: int | None) -> str:
    """Return what a frame calls a thing of a kind, `self.accelerator` too; "" where it has no name for it."""
    while frame is not None:
        for name, value in it.state.frames.get(frame, {}).items():
            for item in alternatives(value):
                if it.kind(item) == kind:
                    return name
                attributes = getattr(it.thing(item), "attrs", {}) if name == "self" else {}
                for word, part in attributes.items():
                    if it.kind(part) == kind and word.isidentifier():
                        return f"self.{word}"
        frame = it.parents.get(frame)
    return ""


def assigned_name(it: Interpreter, place: CodeLocation, *, of_module: bool = False) -> str:
    """Return the name that a statement gives what it makes; "" for none, or one of a function if asked."""
    source = it.sources.get(place.path)
    nodes = it.sources.parser.nodes(source.tree) if source is not None else []
    for node in reversed([each for each in nodes if isinstance(each, (ast.Assign, ast.AnnAssign))]):
        if node.lineno <= place.line <= (node.end_lineno or 0) and not (of_module and node.col_offset):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            is_name = isinstance(target, (ast.Name, ast.Attribute)) and not isinstance(node.value, _MANY)
            name = ast.unparse(target) if is_name else ""
            maker = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
            return f"{name}.sampler" if name and maker.endswith("Loader") else name
    return ""
