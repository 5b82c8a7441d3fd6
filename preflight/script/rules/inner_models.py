"""R406: a loop that gives the wrapper's name to the model inside, and trains on by it."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit
from preflight.script.syntax_trees import ByKind, walk

_UNWRAPS = re.compile(r"\.unwrap_model\(|\w\.module *(?:#|$)", re.MULTILINE)


def find_unwrapped(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield where the model inside takes the name of its wrapper, in a loop that trains."""
    for source in it.sources.files() if event.name == "end" and it.sources.mention(_UNWRAPS) else ():
        if not it.sources.parser.make(_UNWRAPS.search, source.text):
            continue
        for node, name in it.sources.parser.find_by_kind(_list_unwrapped, source.tree):
            message = f"{name} is then the model inside, and the turns behind this exchange no gradients"
            yield RuleHit(source.place(node), message, f"another name for it than {name}", Level.WARNING)


def _list_unwrapped(kinds: ByKind) -> list[tuple[ast.Assign, str]]:
    """Return what gives a wrapper's name to the model inside, within a loop that trains by that name."""
    found = []
    for node in kinds.get(ast.Assign, ()):
        name, value = getattr(node.targets[0], "id", ""), node.value
        inner = value.args[0] if isinstance(value, ast.Call) and value.args else value
        inner = inner.value if isinstance(inner, ast.Attribute) and inner.attr == "module" else inner
        if not name or inner is value or getattr(inner, "id", "") != name:
            continue
        loops = (*kinds.get(ast.For, ()), *kinds.get(ast.While, ()))
        for loop in (each for each in loops if each.lineno < node.lineno <= (each.end_lineno or 0)):
            parts = walk(loop)
            calls = [part for part in parts if isinstance(part, ast.Call)]
            stores = [part for part in parts if isinstance(part, ast.Name) and part.id == name]
            again = [part for part in stores if isinstance(part.ctx, ast.Store)]
            ends = any(isinstance(part, (ast.Break, ast.Return)) for part in parts)
            trains = {"backward", "step"} <= {get_last_name(call) for call in calls}
            called = any(getattr(call.func, "id", "") == name and call.lineno < node.lineno for call in calls)
            if trains and called and len(again) == 1 and not ends:
                found.append((node, name))
                break
    return found
