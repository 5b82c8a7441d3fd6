"""Which Accelerator a line of a script can name: fixes must not use one that does not exist yet."""

import ast
from collections.abc import Iterator

from preflight.frozen import dataclass

_Def = ast.FunctionDef | ast.AsyncFunctionDef
_MADE_LATER = "the Accelerator is made below this line"
_NONE_HERE = "no Accelerator is in scope: pass it to this function"
_SEVERAL = "there are several Accelerators in scope"


@dataclass(frozen=True, slots=True)
class _AcceleratorAssignment:
    """One `name = Accelerator(...)`; `scope` is the function around it, None for the module."""

    name: str
    line: int
    scope: _Def | None
    cls: ast.ClassDef | None


class Scopes:
    """A script's functions, its Accelerators, and whether it imports torch under its own name."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text.removeprefix("\ufeff"))
        self._defs: list[tuple[ast.AST, ...]] = []
        self._made: list[_AcceleratorAssignment] = []
        imports = [item for node in tree.body if isinstance(node, ast.Import) for item in node.names]
        self.has_torch = any(item.name == "torch" and not item.asname for item in imports)
        self._walk(tree, ())

    def accelerator(self, line: int) -> tuple[str, str]:
        """Return how a line names the Accelerator, or "" and why it cannot."""
        chain = [item for item in self._chain(line) if isinstance(item, _Def)]
        names = {item.name for item in self._made}
        for function in reversed([None, *chain]):
            if function is not None:
                known = {argument.arg for argument in _arguments(function)} & (names | {"accelerator"})
                if len(known) == 1:
                    return known.pop(), ""
            here = [item for item in self._made if item.scope is function and "." not in item.name]
            if here:
                return _chosen(here, line)
        return self._of_self(line, chain)

    def _of_self(self, line: int, chain: list[_Def]) -> tuple[str, str]:
        classes = [item for item in self._chain(line) if isinstance(item, ast.ClassDef)]
        mine = [item for item in self._made if "." in item.name and item.cls in classes]
        method = chain[0] if chain else None
        first = method.args.args[0].arg if method is not None and method.args.args else ""
        mine = [item for item in mine if item.name.startswith(f"{first}.")]
        if not mine:
            return "", _NONE_HERE
        if len({item.name for item in mine}) > 1:
            return "", _SEVERAL
        if all(item.scope is method and item.line >= line for item in mine):
            return "", _MADE_LATER
        return mine[0].name, ""

    def _chain(self, line: int) -> tuple[ast.AST, ...]:
        best: tuple[ast.AST, ...] = ()
        for chain in self._defs:
            last = chain[-1]
            start, end = getattr(last, "lineno", 0), getattr(last, "end_lineno", 0)
            if start <= line <= end and len(chain) > len(best):
                best = chain
        return best

    def _walk(self, node: ast.AST, chain: tuple[ast.AST, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = chain
            if isinstance(child, _Def | ast.ClassDef):
                inner = (*chain, child)
                self._defs.append(inner)
            else:
                self._note(child, chain)
            self._walk(child, inner)

    def _note(self, node: ast.AST, chain: tuple[ast.AST, ...]) -> None:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not _makes_one(node.value):
            return
        functions = [item for item in chain if isinstance(item, _Def)]
        classes = [item for item in chain if isinstance(item, ast.ClassDef)]
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        scope = functions[-1] if functions else None
        cls = classes[-1] if classes else None
        if isinstance(target, ast.Name | ast.Attribute):
            self._made.append(
                _AcceleratorAssignment(ast.unparse(target), node.end_lineno or node.lineno, scope, cls)
            )


def _chosen(here: list[_AcceleratorAssignment], line: int) -> tuple[str, str]:
    before = {item.name for item in here if item.line < line}
    if len(before) == 1:
        return before.pop(), ""
    return "", _SEVERAL if before else _MADE_LATER


def _makes_one(value: ast.expr | None) -> bool:
    func = value.func if isinstance(value, ast.Call) else None
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return name == "Accelerator"


def _arguments(function: _Def) -> Iterator[ast.arg]:
    yield from (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
