"""Where a script names argparse, functions and the command line: syntax alone. Nothing is executed."""

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from preflight.script.declared_arguments import Unproven
from preflight.script.syntax_trees import walk

_EXITS = frozenset({"exit", "_exit", "quit", "execv", "execvp", "execvpe", "execl", "execlp"})
HARMLESS = frozenset(
    {*("print", "join", "info", "debug", "warning", "log", "len", "str", "repr", "format", "write", "dumps")}
)
"""Functions that only look at sys.argv."""


def may_leave(node: ast.AST) -> bool:
    """Whether it may end a function or the script without an error."""
    if not isinstance(node, ast.Call) or get_last_name(node.func) not in _EXITS:
        return isinstance(node, ast.Return)
    code = node.args[0] if node.args else None
    return not isinstance(code, ast.Constant | ast.JoinedStr) or (
        isinstance(code, ast.Constant) and not code.value
    )


def get_last_name(node: ast.expr) -> str:
    """Return `c` of `a.b.c`, of a call's function likewise."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def find_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that these nodes mention."""
    return {inner.id for node in nodes for inner in walk(node) if isinstance(inner, ast.Name)}


def find_argparse(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names of ArgumentParser, and those of argparse. Raises Unproven where others have them."""
    makers: set[str] = set()
    modules: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                (modules if alias.name == "argparse" else others).add(name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                is_maker = node.module == "argparse" and alias.name in ("ArgumentParser", "*")
                named = "ArgumentParser" if alias.name == "*" else alias.asname or alias.name
                (makers if is_maker else others).add(named)
    if others & (makers | modules):
        raise Unproven
    return makers, modules


def refuse_edited_command_line(nodes: Iterable[ast.AST], modules: set[str]) -> None:
    """Raise Unproven where sys.argv is more than looked at, or a part of argparse is replaced."""
    looks: set[int] = set()
    mentions: set[int] = set()
    for node in nodes:
        match node:
            case ast.Attribute(value, name, context):
                if name == "argv":
                    mentions.add(id(node))
                if not isinstance(context, ast.Load) and find_names([value]) & modules:
                    raise Unproven
            case ast.Call() if get_last_name(node.func) in HARMLESS:
                looks.update(map(id, node.args))
            case ast.FormattedValue(value) | ast.Subscript(value, _, ast.Load()):
                looks.add(id(value))
            case ast.Compare():
                looks.update(map(id, node.comparators))
            case ast.ImportFrom("sys", names) if {"argv", "*"} & {alias.name for alias in names}:
                raise Unproven
    if not mentions <= looks:
        raise Unproven


def list_outer_statements(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements of the module, those of its conditions included."""
    found = list(tree.body)
    for node in found:  # which grows
        if isinstance(node, ast.If | ast.With | ast.Try):
            found += [*node.body, *getattr(node, "orelse", ())]
    return found


def count_bindings(nodes: Iterable[ast.AST]) -> Counter[str]:
    """Return how often each name is bound in the whole file: assigned, imported, defined or a parameter."""
    bound: Counter[str] = Counter()
    for node in nodes:
        match node:
            case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
                bound[name] += 1
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                bound[name] += 1
            case ast.alias(name, other):
                bound[other or name.partition(".")[0]] += 1
    return bound


def find_functions(tree: ast.Module, bound: Mapping[str, int]) -> dict[str, ast.FunctionDef]:
    """Return the functions of the module whose names are bound once in the whole file."""
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: node for node in functions if bound[node.name] == 1}


def find_constants(nodes: Sequence[ast.AST], bound: Mapping[str, int]) -> dict[str, ast.expr]:
    """Return what names are assigned, of those that are bound once, and that nothing may change."""
    looks: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "choices":
            looks.add(id(node.value))
        elif isinstance(node, ast.Compare):
            looks.update(map(id, node.comparators))
    handed_on = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in looks
    }
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets[:1]
        if isinstance(target, ast.Name) and bound[target.id] == 1
        if isinstance(node.value, ast.Tuple) or target.id not in handed_on
    }
