"""Code that cannot run: functions and classes that nothing but an import names, comments and texts."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.script.interpreter.interpreter import Interpreter

_LOOKS_UP = frozenset(
    {
        *("getattr", "globals", "exec", "import_module", "__import__", "__subclasses__", "instantiate"),
        *("locate", "import_string", "instantiate_from_config", "build_from_cfg", "Fire", "LightningCLI"),
    }
)
"""What finds functions and classes by names which the code, or its user, may compute."""
_SETTINGS = frozenset({"args", "opt", "opts", "cfg", "config", "conf", "params", "hparams", "self", "torch"})


def unused_lines(it: Interpreter) -> dict[str, set[int]]:
    """Return by file the lines of functions and classes that cannot run.

    A method runs where its class is used: libraries call `forward`, a hook of a trainer. All may run where
    code looks up by their names what it defines.
    """
    parser, files = it.sources.parser, it.sources.files()
    unused = {source.path: set[int]() for source in files}
    left = [(source.path, node) for source in files for node in parser.find(_definitions, source.tree)]
    if not left or any(parser.find(_looks_up, source.tree) for source in files):
        return unused
    named = [(source.path, parser.find(_mentions, source.tree)) for source in files]
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


def code_lines(nodes: Sequence[ast.AST]) -> frozenset[int]:
    """Return the lines on which names, or strings of one line, end: no comments and no longer texts."""
    named = (ast.Name, ast.Attribute, ast.Call, ast.keyword)
    return frozenset(
        getattr(node, "end_lineno", 0)
        for node in nodes
        if isinstance(node, named)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno == node.end_lineno)
    )


def _definitions(nodes: Sequence[ast.AST]) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return what runs only where it is named: no method, nothing that a decorator gets, no `main`."""
    methods = {id(each) for node in nodes if isinstance(node, ast.ClassDef) for each in node.body}
    found = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return [
        node for node in found if not node.decorator_list and id(node) not in methods and node.name != "main"
    ]


def _mentions(nodes: Sequence[ast.AST]) -> Mapping[str, list[int]]:
    """Return the lines that read each name, in strings too; an import alone reads none."""
    found = defaultdict[str, list[int]](list)
    for node in nodes:
        for name in _named(node) if isinstance(node, _NAMING) else ():
            found[name].append(getattr(node, "lineno", 0))
    return found


_NAMING = (ast.Name, ast.Attribute, ast.alias, ast.Constant)


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias) and node.asname:
        yield node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield re.split(r"[.:]", node.value)[-1]  # "package.module:function"


def _looks_up(nodes: Sequence[ast.AST]) -> bool:
    """Whether code may find a class by a name that it computes."""
    for node in nodes:
        names = node.value if isinstance(node, ast.Subscript) else None
        if isinstance(names, ast.Attribute) and names.attr == "__dict__":
            looked_up = _SETTINGS.isdisjoint(_named(names.value))
        elif isinstance(node, ast.Call):
            name, plain = next(_named(node.func), ""), getattr(node.func, "id", "")
            owner = next(_named(node.args[0]), "") if plain == "getattr" and node.args else ""
            asked = node.args[1:2] if plain == "getattr" else node.args[:1]
            computed = not asked or not isinstance(asked[0], ast.Constant)
            called = name in _LOOKS_UP or plain == "eval"  # no model.eval()
            looked_up = called and computed and owner not in _SETTINGS
        elif isinstance(node, ast.FunctionDef):
            looked_up = node.name == "__init_subclass__"
        else:
            continue
        if looked_up:
            return True
    return False
