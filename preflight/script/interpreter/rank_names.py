"""Names and attributes that a branch of rank 0 alone gives a value, and where other ranks come to them."""

import ast
from collections import defaultdict

from preflight.script.interpreter.branch_conditions import OF_SOME, RANK_0, UNCALLED, UNREACHED, asks_rank
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import ByKind, root_of, unparse, walk

_Lines = dict[str, list[int]]
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def note_names_of_rank_0(it: Interpreter, node: ast.If) -> None:
    """Remember what the branch of a condition names, and no other code of its function or class does."""
    if it.target.processes == 1 or it.starred or not asks_rank(node.test) or _may_end(node.orelse):
        return
    if id(node) not in it.alone.by_test:
        it.alone.by_test[id(node)] = _list_bound_in(it, node)
    for name in it.alone.by_test[id(node)]:
        it.alone.frames.setdefault(name, set()).add(it.frame)


def note_use(it: Interpreter, node: ast.Name | ast.Attribute, name: str) -> None:
    """Send the rules a use of such a name that all ranks come to."""
    if name.startswith("self."):
        known = getattr(node, "value", None) is not None
    else:
        frame: int | None = it.frame
        while frame is not None and name not in it.state.frames.get(frame, ()):
            frame = it.parents.get(frame)
        known = frame is None or frame in it.alone.frames[name]
    some = any(place in OF_SOME or place == UNCALLED or place.startswith(UNREACHED) for place in it.contexts)
    if known and not some:
        it.emit(ScriptEvent("use of rank 0's", it.place(node), None, None, name))


def _may_end(others: list[ast.stmt]) -> bool:
    """Whether the branch of other ranks may not come to what is behind it, or asks for more."""
    ends = (ast.Return, ast.Raise, ast.Continue, ast.Break, ast.If)
    return any(isinstance(part, ends) or "exit" in unparse(part) for each in others for part in walk(each))


def _list_bound_in(it: Interpreter, node: ast.If) -> frozenset[str]:
    """Return the names, and `self.` attributes, that only branches of one condition give a value."""
    parser = it.sources.parser
    test = unparse(node.test)
    same = [
        (each.body[0].lineno, each.body[-1].end_lineno or 0)
        for each in it.list_nodes(ast.If)
        if each is node or it.branch_places.get(id(each), ("",))[0] == RANK_0 or unparse(each.test) == test
    ]
    found = set[str]()
    for scope, bound in ((it.scope, _bindings), (it.source.tree, _attributes)):
        for name, lines in parser.find_by_kind(bound, scope).items():
            inside = any(node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0) for line in lines)
            if inside and all(any(first <= line <= last for first, last in same) for line in lines):
                found.add(name)
    return frozenset(found)


def _bindings(kinds: ByKind) -> _Lines:
    """Return the names that a scope binds, with the lines where it does; 0 where that is for all."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    defined = [node for kind in _DEFINES for node in kinds.get(kind, ()) if node is not root_of(kinds)]
    inner = [(node.lineno, node.end_lineno or 0) for node in defined]
    for node in (*kinds.get(ast.Name, ()), *kinds.get(ast.arg, ())):
        of_scope = not any(first <= node.lineno <= last for first, last in inner)
        if of_scope and not isinstance(getattr(node, "ctx", None), ast.Load):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            found[node.id if isinstance(node, ast.Name) else node.arg].append(node.lineno if stored else 0)
    for node in defined:
        found[node.name].append(node.lineno)
    for node in (*kinds.get(ast.Import, ()), *kinds.get(ast.ImportFrom, ())):
        for alias in node.names:
            found[alias.asname or alias.name.partition(".")[0]].append(node.lineno)
    for node in (*kinds.get(ast.Global, ()), *kinds.get(ast.Nonlocal, ())):
        for name in node.names:
            found[name].append(0)
    for node in kinds.get(ast.ExceptHandler, ()):
        found[node.name or ""].append(0)
    return found


def _attributes(kinds: ByKind) -> _Lines:
    """Return the attributes that a file gives values, as `self.name`, with the lines where it does."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for node in kinds.get(ast.Attribute, ()):
        if not isinstance(node.ctx, ast.Load):
            own = getattr(node.value, "id", "") == "self" and isinstance(node.ctx, ast.Store)
            found[f"self.{node.attr}"].append(node.lineno if own else 0)
    return found
