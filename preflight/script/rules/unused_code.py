"""Code that cannot run: functions and classes that nothing but an import names, comments and texts."""

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence

from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import ByKind

_LOOKS_UP = frozenset(
    {
        *("getattr", "globals", "exec", "import_module", "__import__", "__subclasses__", "instantiate"),
        *("locate", "import_string", "instantiate_from_config", "build_from_cfg", "Fire", "LightningCLI"),
        "eval",
    }
)
"""What finds functions and classes by names which the code, or its user, may compute."""
_SETTINGS = frozenset({"args", "opt", "opts", "cfg", "config", "conf", "params", "hparams", "self", "torch"})


def find_unused_lines(it: Interpreter) -> dict[str, set[int]]:
    """Return by file the lines of functions and classes that cannot run.

    A method runs where its class is used: libraries call `forward`, a hook of a trainer. All may run where
    code looks up by their names what it defines.
    """
    find, files = it.sources.parser.find_by_kind, it.sources.files()
    unused = {source.path: set[int]() for source in files}
    left = [(source.path, node) for source in files for node in find(_definitions, source.tree)]
    if not left or any(find(_looks_up, source.tree) for source in files):
        return unused
    named = [(source.path, find(_mentions, source.tree)) for source in files]
    before = -1
    while len(left) != before:  # what only unused code names is unused
        before, waiting, left = len(left), left, []
        for path, node in waiting:
            own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            places = ((other, line) for other, lines in named for line in lines.get(node.name, ()))
            if any(
                line not in unused[other] and (other != path or line not in own) for other, line in places
            ):
                left.append((path, node))
            else:
                unused[path].update(own)
    return unused


def list_code_lines(nodes: Sequence[ast.AST]) -> frozenset[int]:
    """Return the lines on which names, or strings of one line, end: no comments and no longer texts."""
    named = (ast.Name, ast.Attribute, ast.Call, ast.keyword)
    return frozenset(
        getattr(node, "end_lineno", 0)
        for node in nodes
        if isinstance(node, named)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno == node.end_lineno)
    )


def _definitions(kinds: ByKind) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return what runs only where it is named: no method, nothing that a decorator gets, no `main`."""
    classes = kinds.get(ast.ClassDef, [])
    methods = {id(each) for node in classes for each in node.body}
    found = (node for node in (*kinds.get(ast.FunctionDef, ()), *classes) if not node.decorator_list)
    return [node for node in found if id(node) not in methods and node.name != "main"]


def _mentions(kinds: ByKind) -> Mapping[str, list[int]]:
    """Return the lines that read each name, in strings too; an import alone reads none."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for node in (*kinds.get(ast.Name, ()), *kinds.get(ast.Attribute, ())):
        found[_named(node)].append(node.lineno)
    for node in kinds.get(ast.alias, ()):
        if node.asname:
            found[node.name].append(node.lineno)
    for node in kinds.get(ast.Constant, ()):
        if isinstance(node.value, str):  # "package.module:function"
            found[_named(node)].append(node.lineno)
    return found


def _named(node: ast.AST) -> str:
    """Return the name that a piece of syntax reads, "" for none."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Load) else ""
    if isinstance(node, ast.Attribute):
        return node.attr
    text = getattr(node, "value", None)
    return text.replace(":", ".").rpartition(".")[2] if isinstance(text, str) else ""


def group_calls_by_name(kinds: ByKind) -> defaultdict[str, list[ast.Call]]:
    """Return calls by the name, or the last part of it, of what they call."""
    found: defaultdict[str, list[ast.Call]] = defaultdict(list)
    for node in kinds.get(ast.Call, ()):
        found[getattr(node.func, "attr", getattr(node.func, "id", ""))].append(node)
    return found


def _looks_up(kinds: ByKind) -> bool:
    """Whether code may find a class by a name that it computes."""
    if any(node.name == "__init_subclass__" for node in kinds.get(ast.FunctionDef, ())):
        return True
    for names in (node.value for node in kinds.get(ast.Subscript, ())):
        if getattr(names, "attr", "") == "__dict__" and _named(names.value) not in _SETTINGS:
            return True
    called = group_calls_by_name(kinds)
    for node in (call for name in called.keys() & _LOOKS_UP for call in called[name]):
        plain = getattr(node.func, "id", "")
        if not plain and getattr(node.func, "attr", "") == "eval":
            continue  # model.eval()
        owner = _named(node.args[0]) if plain == "getattr" and node.args else ""
        asked = node.args[1:2] if plain == "getattr" else node.args[:1]
        computed = not asked or not isinstance(asked[0], ast.Constant)
        if computed and owner not in _SETTINGS:
            return True
    return False
