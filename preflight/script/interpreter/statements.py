"""Statements of the language: what one does to names and to the path, `with` blocks are remembered."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from preflight import regex as re
from preflight.script.interpreter import branches, calls, classes, loops, rank_values
from preflight.script.interpreter.assignments import assign_target, delete_item, note_second_name
from preflight.script.interpreter.branch_conditions import FINALLY, MAYBE, RANK_0
from preflight.script.interpreter.contexts import STACK, SUPPRESS, list_context_kinds, note_autocast
from preflight.script.interpreter.decorators import OF_KINDS, apply_decorator
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.interpreter.state import State, merge_states
from preflight.script.library_names import GONE
from preflight.script.source import Source, list_names
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, ExternalName, Module, Value
from preflight.script.values.constants import NONE, UNKNOWN

_GIVES_UP = re.compile(
    r"\b(?:raise|_?exit|quit|abort|kill|destroy_process_group|return [1-9])\b"
    r"|barrier|broadcast|reduce|gather|wait"
)
"""In a handler or a function: it ends the rank, or meets the other ranks."""
_ENDS = frozenset({"SystemExit", "SystemExit()", "SystemExit(0)"})  # ends without a failure


def _expression(it: Interpreter, node: ast.Expr) -> None:
    it.named_value = node.value  # net.half() alone changes net
    it.evaluate(node.value)


def _assign(it: Interpreter, node: ast.Assign) -> None:
    it.named_value = node.value
    value = it.evaluate(node.value)
    if it.open_loops and isinstance(node.value, ast.BinOp):
        counts = unparse(node.value.left) == unparse(node.targets[0])
        value = _counted(it, value) if counts else value
    for target in node.targets:
        assign_target(it, target, value)
    note_second_name(it, node, value)


def _counted(it: Interpreter, value: Value) -> Value:
    """Return what a variable holds that each turn of a loop changes: the last number or text is not known."""
    grows = isinstance(value, Const) and type(value.value) in (int, float, str)
    return UNKNOWN if grows and it.open_loops else value


def _annotated(it: Interpreter, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign_target(it, node.target, it.evaluate(node.value))


def _augmented(it: Interpreter, node: ast.AugAssign) -> None:
    if isinstance(node.op, ast.BitOr) and it.evaluate(node.target) == ExternalName("os.environ"):
        it.library.call(it, "os.environ.update", unwrap_value(it, node, (it.evaluate(node.value),)))
    else:
        assign_target(it, node.target, _counted(it, it.evaluate(it.sources.parser.find(_operation, node))))


def _operation(nodes: list[Any]) -> ast.BinOp:
    """Return `a + b` of `a += b`."""
    made = ast.BinOp(left=nodes[0].target, op=nodes[0].op, right=nodes[0].value)
    return ast.copy_location(made, nodes[0])


def _break(it: Interpreter, node: ast.Break) -> None:
    turns = max((number for number, loop in enumerate(it.loops) if not loop.number), default=0)
    loops.leave_loops(it, it.place(node), it.loops[turns:])
    it.ways.breaks.append(it.state.fork())
    it.state.dead = True


def _continue(it: Interpreter, node: ast.Continue) -> None:
    loops.leave_loops(it, it.place(node), [loop for loop in it.loops if not loop.number][-1:], how="turn")
    it.ways.continues.append(it.state.fork())
    it.state.dead = True


def _return(it: Interpreter, node: ast.Return) -> None:
    it.named_value = node.value  # by the caller, if at all
    value = it.evaluate(node.value) if node.value else NONE
    loops.leave_loops(it, it.place(node), [loop for loop in it.loops if loop.calls == len(it.stack)])
    it.ways.returns.append((value, it.state.fork(), rank_values.mark_rank_answer(it, value)))
    it.state.dead = True


def _raise(it: Interpreter, node: ast.Raise) -> None:
    if node.exc is not None:
        it.evaluate(node.exc)
    ends = node.exc is not None and unparse(node.exc) in _ENDS
    raised = getattr(node.exc, "func", node.exc)
    name = getattr(raised, "attr", getattr(raised, "id", ""))
    caught = [number for number, loop in enumerate(it.loops) if name and loop.catches(name)]
    loops.leave_loops(
        it, it.place(node), it.loops[caught[-1] if caught else 0 :], how="" if ends or caught else "fails"
    )
    it.state.dead = True


def _try(it: Interpreter, node: ast.Try) -> None:
    """A handler is read from what holds before and after the body, and may or may not have run.

    Imports are taken to succeed, and variables of the launch to be set, unless the body always raises.
    """
    before, left, depth = it.state.fork(), branches.count_ways_out(it), len(it.contexts)
    loops.read_caught(it, node, _caught(it, node))
    ended = it.state.fork()
    always = ended.dead and branches.count_ways_out(it) == left
    it.execute(node.orelse)
    paths = [it.state]
    imports = any(isinstance(item, (ast.Import, ast.ImportFrom)) for item in node.body)
    environ = not imports and any("environ" in it.sources.parser.find(_text, item) for item in node.body)
    for handler in node.handlers:
        if always or not _never_runs(handler, imports=imports, environ=environ):
            it.state = before.fork() if ended.dead else merge_states([before.fork(), ended.fork()])
            paths.append(_handled(it, handler, always=always))
    it.state = merge_states(paths)
    _end(it, depth, left, lambda: it.execute(node.finalbody))


def _caught(it: Interpreter, node: ast.Try) -> str:
    """Return what the handlers catch that lead past the block; one in a loop may try again what it ends."""
    in_loop = [loop for loop in it.loops[-1:] if not loop.number and loop.calls == len(it.stack)]
    if in_loop and isinstance((node.orelse or node.body)[-1], (ast.Break, ast.Return)):
        return ""
    parser, kinds = it.sources.parser, list[str]()
    for handler in node.handlers:
        names = parser.find(list_names, handler)
        called = it.list_functions(names)
        if not any(_GIVES_UP.search(parser.find(_text, part)) for part in (handler, *called)):
            kinds.append(unparse(handler.type) if handler.type else "Exception")
    return " ".join(kinds)


def _text(nodes: list[ast.AST]) -> str:
    return unparse(nodes[0])


def _end(it: Interpreter, depth: int, left: tuple[int, int, int], end: Callable[[], object]) -> None:
    """Carry out what ends a block: those who left come to it too, with the last who did where all have.

    `depth`: contexts before the block; `left`: ways out before it.
    """
    inside, it.contexts[depth:] = it.contexts[depth:], [FINALLY]
    dead, returns, turns = it.state, it.ways.returns, (it.ways.breaks, it.ways.continues)
    ways = [way for way, before in zip(turns, left[1:], strict=True) if len(way) > before]
    if dead.dead and len(returns) > left[0]:
        value, it.state, told = returns[-1]
        end()
        returns[-1], it.state = (value, it.state, told), dead
    elif dead.dead and ways:
        it.state = ways[0][-1]
        end()
        ways[0][-1], it.state = it.state, dead
    else:
        end()
    it.contexts[depth : depth + 1] = inside


def _handled(it: Interpreter, handler: ast.ExceptHandler, *, always: bool) -> State:
    """Return the state after a handler. One that only gives up returns nothing that training continues
    with.
    """
    returned, depth = len(it.ways.returns), len(it.contexts)
    it.contexts += [] if always else ["except"]
    it.execute(handler.body)
    del it.contexts[depth:]
    if not always:
        it.ways.returns[returned:] = [way for way in it.ways.returns[returned:] if way[0] != NONE]
    return it.state


def _never_runs(handler: ast.ExceptHandler, *, imports: bool, environ: bool) -> bool:
    """Whether a handler is for what a launch does not meet: a missing package, a missing rank variable."""
    caught = unparse(handler.type) if handler.type is not None else ""
    if imports or "ImportError" in caught or "ModuleNotFound" in caught or "KeyboardInterrupt" in caught:
        return True
    return environ and "KeyError" in caught


def _with(it: Interpreter, node: ast.With | ast.AsyncWith) -> None:
    depth = len(it.contexts)
    outer, it.block = it.block, node.body
    managers, after = list[Value](), it.default_dtype
    for item in node.items:
        value = it.evaluate(item.context_expr)
        after = after if managers else it.default_dtype
        it.contexts += list_context_kinds(it, item.context_expr, value)
        managers.append(value)
        value = classes.enter_context(it, value, node)
        restores = classes.find_method(it, managers[-1], "__exit__") is None
        after = after if restores else it.default_dtype  # else its own __exit__ does, if it does
        if item.optional_vars is not None:
            assign_target(it, item.optional_vars, value)
    for manager in managers:  # once it is known whether gradients flow in the block
        note_autocast(it, manager)
    it.block = outer
    within, left, inside = it.default_dtype, branches.count_ways_out(it), len(it.contexts)
    suppresses = SUPPRESS in it.contexts[depth:]
    suppressed = [unparse(item.context_expr) for item in node.items] if suppresses else ()
    loops.read_caught(it, node, " ".join(suppressed))
    restored = it.default_dtype is within or STACK in it.contexts[depth:]
    it.default_dtype = after if restored else it.default_dtype
    for manager in reversed(managers):
        _end(it, inside, left, partial(classes.leave_context, it, manager, node))
    if SUPPRESS in it.contexts[depth:] and branches.count_ways_out(it) == left:
        it.state.dead = False  # what the block raises ends the block only
    del it.contexts[depth:]


def _function(it: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if any(
        isinstance(item, ast.Attribute) and item.attr in ("setter", "deleter") for item in node.decorator_list
    ):
        it.setters.add(node.name)
        it.bind(f"{node.name}.setter", calls.define_function(it, node, ()))  # the property keeps its name
        return
    decorators = tuple(it.evaluate(item) for item in node.decorator_list)
    func = calls.define_function(it, node, decorators)
    it.bind(node.name, func)
    made: Value = func
    is_plain = not any(isinstance(item, ExternalName) and item.name in OF_KINDS for item in decorators)
    for decorator in reversed(decorators):
        result = apply_decorator(it, decorator, made, node)
        made = result if is_plain else func
    if decorators:
        it.bind(node.name, made)


def _class(it: Interpreter, node: ast.ClassDef) -> None:
    cls = classes.define_class(it, node)
    it.bind(node.name, cls)
    for decorator in node.decorator_list:
        apply_decorator(it, it.evaluate(decorator), cls, node)  # for what it notes


def _import(it: Interpreter, node: ast.Import) -> None:
    for alias in node.names:
        root, _, inner = alias.name.partition(".")
        source = it.sources.find_import(alias.name, 0, it.source)
        value: Value
        if source is None:
            value = ExternalName(alias.name if alias.asname else root)
        elif alias.asname or not inner:
            it.module_frame(source)
            value = Module(source.path)
        else:
            value = _package(it, root, source.path, inner.count(".") + 1)
            it.module_frame(source)
        it.bind(alias.asname or root, value)


def _package(it: Interpreter, root: str, path: str, depth: int) -> Module:
    """Return the package that holds a module so many levels down, its own text read if it has one."""
    parts = path.removesuffix("/__init__.py").split("/")[:-depth]
    source = it.sources.find_import(root, 0, it.source)
    found = Module("/".join([*parts, "__init__.py"]))
    if source is not None and source.path == found.path:
        it.module_frame(source)
    return found


def _import_from(it: Interpreter, node: ast.ImportFrom) -> None:
    source = it.sources.find_import(node.module or "", node.level, it.source)
    if node.names[0].name != "*":
        for alias in node.names:
            it.bind(alias.asname or alias.name, _imported(it, node, alias.name, source))
    elif source is not None:
        for name, value in dict(_names_of_module(it, source)).items():  # which may be the names bound
            if not name.startswith("_"):
                it.bind(name, value)
    elif node.module and not node.level:
        it.starred[node.module] = None


def _names_of_module(it: Interpreter, source: "Source") -> dict[str, Value]:
    frame = it.module_frame(source)  # reading it may leave another state
    return it.state.frames[frame]


def _imported(it: Interpreter, node: ast.ImportFrom, name: str, source: "Source | None") -> Value:
    if source is not None:
        found = _names_of_module(it, source).get(name)
        if found is not None:
            return found
    dotted = f"{node.module}.{name}" if node.module else name
    inner = it.sources.find_import(dotted, node.level, it.source)
    if inner is not None:
        it.module_frame(inner)
        return Module(inner.path)
    if node.level or source is not None:
        return UNKNOWN  # the script's own, and not to be found: never taken for a library's
    if dotted in GONE or node.module in GONE:
        it.emit(ScriptEvent("import", it.place(node), what=dotted if dotted in GONE else node.module or ""))
    known = it.library.constant(it, dotted, node)
    return ExternalName(dotted) if known is None else known


def _global(it: Interpreter, node: ast.Global) -> None:
    """From this point on these names of the function are the module's."""
    module = it.modules.get(it.source.path)
    if module is None:
        return
    for name in node.names:
        it.global_names.setdefault(it.frame, {})[name] = module


def _nonlocal(it: Interpreter, node: ast.Nonlocal) -> None:
    """These names are those of the nearest function around it that has them."""
    for name in node.names:
        frame = it.parents.get(it.frame)
        while frame is not None and name not in it.state.frames.get(frame, {}):
            frame = it.parents.get(frame)
        if frame is not None:
            it.global_names.setdefault(it.frame, {})[name] = frame


def _delete(it: Interpreter, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            it.state.names(it.frame).pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            delete_item(it, target)


def _match(it: Interpreter, node: ast.Match) -> None:
    """Every case may be the one that no case before it surely is, and that is not known to be none."""
    subject = it.evaluate(node.subject)
    before, depth, asked = it.state, len(it.contexts), len(it.tests)
    paths, places, outer_guard = list[State](), list[str](), it.guard
    for case in node.cases:
        it.state = before.fork()
        fits = branches.match_case(it, case, subject)
        if fits is False:
            continue
        sure = fits and not paths
        places += [place] if (place := branches.place_of_case(it, case, subject, places)) else []
        it.contexts += [place] if place else []
        it.guard = it.place(case.pattern) if place == RANK_0 else outer_guard
        it.contexts += [] if sure or it.loop_depth else [MAYBE]
        it.tests += [] if sure else [node.subject]
        it.execute(case.body)
        del it.contexts[depth:], it.tests[asked:]
        it.guard = outer_guard
        paths.append(it.state)
        if fits:
            break
    else:
        paths.append(before)
    it.state = merge_states(paths)


HANDLERS: dict[type[ast.stmt], Callable[[Interpreter, Any], object]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: branches.read_if,
    ast.For: loops.read_for,
    ast.AsyncFor: loops.read_for,
    ast.While: loops.read_while,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Try: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.Delete: _delete,
    ast.Assert: branches.read_assert,
    ast.Match: _match,
}
