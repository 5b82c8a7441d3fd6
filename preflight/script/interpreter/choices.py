"""Calls of one of several functions: a table of commands, a choice that reading cannot make."""

import ast
from dataclasses import replace

from preflight import regex as re
from preflight.script.interpreter import builtin_methods, calls
from preflight.script.interpreter.branch_conditions import MAYBE, OTHER_RANKS, RANK_0
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.state import merge_states
from preflight.script.library_names import TRAINS
from preflight.script.values import Class, Func, OneOf, Value
from preflight.script.values.operations import as_bool, join

_USES = (
    r"(?:^|_)(?:eval\w*|valid\w*|tests?|tester|testing|demo|infer\w*|predict\w*|sampl\w+|generate|export|convert|serve"
    r"|bench|chat|show|info|inspect|list|download|prepare|preprocess|benchmark|profile|visuali[sz]e|plot)(?:_|$)"
)
"""Names of what a script does beside training: a launch of several ranks is for what trains."""


def invoke_one_of(it: Interpreter, func: OneOf, seen: Call) -> Value:
    """Call each function, or class, from the same state, for only one of them runs."""
    functions = [item for item in func.values if isinstance(item, (Func, Class))]
    if len(functions) < 2:
        return join([_invoke_held(it, func, item, seen) for item in func.values])
    functions = functions if func.held else _without_uses(it, functions)
    before, depth = it.state, len(it.contexts)
    it.contexts += [MAYBE] if len(functions) > 1 and not it.loop_depth else []
    results, paths = [], []
    for item in functions:
        it.state = before.fork()
        results.append(_invoke_held(it, func, item, seen))
        paths.append(it.state)
    del it.contexts[depth:]
    it.state = merge_states(paths)
    others = (item for item in func.values if not isinstance(item, (Func, Class)))
    return join([*results, *(_invoke_held(it, func, item, seen) for item in others)])


def _invoke_held(it: Interpreter, func: OneOf, item: Value, seen: Call) -> Value:
    """Call one of the functions, on the ranks that hold it: rank 0 has `save if rank == 0 else skip`."""
    first, depth = (func.held or {}).get(item), len(it.contexts)
    it.contexts += [] if first is None else [RANK_0 if first else OTHER_RANKS]
    result = calls.call_value(it, item, seen)
    del it.contexts[depth:]
    return result


def call_builtin_method(it: Interpreter, owner: ast.expr, name: str, seen: Call) -> Value:
    """Call a method of a string, list or dict; of `(a if x else b).append(y)` either may be the one."""
    if not isinstance(owner, ast.IfExp):
        return builtin_methods.call_builtin_method(it, it.evaluate(owner), name, seen)
    known = as_bool(it.evaluate(owner.test))
    branches = [
        branch for branch, holds in ((owner.body, True), (owner.orelse, False)) if known in (None, holds)
    ]
    results = []
    for branch in branches:
        func = ast.copy_location(ast.Attribute(value=branch, attr=name, ctx=ast.Load()), owner)
        node = ast.copy_location(ast.Call(func=func, args=seen.node.args, keywords=[]), seen.node)
        results.append(
            builtin_methods.call_builtin_method(it, it.evaluate(branch), name, replace(seen, node=node))
        )
    return join(results)


def is_model_use(name: str) -> bool:
    """Whether a function by its name uses a model and does not train it."""
    return re.search(_USES, name) is not None


def _without_uses(it: Interpreter, functions: list[Func | Class]) -> list[Func | Class]:
    """Return the functions, without those that by their names use a model where another one trains it."""
    names = {item: _name_of(it, item) for item in functions}
    if not any(TRAINS.search(name) and not is_model_use(name) for name in names.values()):
        return functions
    for item in (item for item, name in names.items() if is_model_use(name)):
        methods = it.classes[item.key].names.values() if isinstance(item, Class) else ()
        it.called |= {item.key, *(method.key for method in methods if isinstance(method, Func))}
    return [item for item in functions if not is_model_use(names[item])]


def _name_of(it: Interpreter, item: Func | Class) -> str:
    """Return the name of a function, or that of a class as a function would have it: lane_tester."""
    if isinstance(item, Class):
        return _WORD_OF_CLASS.sub("_", it.classes[item.key].node.name).lower()
    return getattr(it.functions[item.key].node, "name", "")


_WORD_OF_CLASS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
