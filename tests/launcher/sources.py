"""The modules of the product as files, and what each imports."""

import ast
import functools
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for room in ("launcher", "preflight") for path in (ROOT / room).rglob("*.py"))
OURS = {"launcher", "preflight", "tests", "bench", "templates"}
ON_HOST = ("preflight/probes/", "launcher/onhost/")


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path, *, types: bool = False, later: bool = True) -> frozenset[str]:
    """Return the modules, and the names out of them, that a file imports.

    `types`: for type checkers too; `later`: in functions too, when they are called.
    """
    return frozenset(
        name
        for name, for_types, in_function in read(path).imported
        if types >= for_types and later >= in_function
    )


class Module(NamedTuple):
    """What a file imports, and how long its functions are."""

    imported: frozenset[tuple[str, bool, bool]]  # whether only for type checkers, and whether in a function
    functions: tuple[tuple[str, int], ...]  # with lines


@functools.cache
def read(path: Path) -> Module:
    """Parse a file, once in each process of the tests."""
    found: set[tuple[str, bool, bool]] = set()
    functions: list[tuple[str, int]] = []
    pending: list[tuple[ast.AST, bool, bool]] = [(ast.parse(path.read_text()), False, False)]
    while pending:
        node, types, later = pending.pop()
        names: tuple[str, ...] = ()
        if isinstance(node, ast.Import):
            names = tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                assert is_on_host(path), f"{shown(path)}: a relative import hides which room it reaches"
                above = ".".join(path.relative_to(ROOT).parts[: -node.level])
                module = f"{above}.{module}".removesuffix(".")
            names = (module, *(f"{module}.{alias.name}" for alias in node.names))
        elif not isinstance(node, ast.expr):  # no expression imports
            types |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            if isinstance(node, ast.FunctionDef):
                later = True
                functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
            pending += ((child, types, later) for child in ast.iter_child_nodes(node))
        found |= {(name, types, later) for name in names}
    return Module(frozenset(found), tuple(functions))


def reached(path: Path, modules: set[str], *, types: bool = False, later: bool = True) -> set[str]:
    """Return our modules that a file imports; `from package import module` reaches the module."""
    found = imports(path, types=types, later=later) & modules
    return {name for name in found if not any(other.startswith(name + ".") for other in found)}


def top(module: str) -> str:
    return module.partition(".")[0]


def is_on_host(path: Path) -> bool:
    return shown(path).startswith(ON_HOST)
