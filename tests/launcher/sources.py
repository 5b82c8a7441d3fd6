"""The modules of the product as files, and what each imports."""

import ast
import fcntl
import functools
import os
import pickle
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for room in ("launcher", "preflight") for path in (ROOT / room).rglob("*.py"))
OURS = {"launcher", "preflight", "tests", "bench", "templates"}
ENCODES = re.compile(r"_?encode_|\w+_json$")
SHARED = Path(os.environ["HOME"], "sources.pickle")  # in the home of this session, which its processes share
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
    """What the tests of the product's structure ask of a file."""

    imported: frozenset[tuple[str, bool, bool]]  # whether only for type checkers, and whether in a function
    functions: tuple[tuple[str, int], ...]  # with lines
    public_functions: tuple[str, ...]  # of the module itself, without those that a decorator registers
    words: frozenset[str]  # texts that could be names, fields with a type, and arguments given by name
    texts: frozenset[str]  # of these the texts
    keys: frozenset[str]  # of documents: of dictionaries in functions that encode
    calls: frozenset[str]  # what is called by a name with or without dots
    docstring_lines: frozenset[int]


def read(path: Path) -> Module:
    """Parse a file, once in all processes of a session of the tests."""
    return _read_all()[path]


@functools.cache
def _read_all() -> dict[Path, Module]:
    """Parse the product, or read what another process of this session has made of it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return {path: _parse(path) for path in SOURCES}
    with SHARED.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not file.tell():
            pickle.dump({path: _parse(path) for path in SOURCES}, file)
        file.seek(0)
        found: dict[Path, Module] = pickle.load(file)
        return found


def _parse(path: Path) -> Module:
    imported: set[tuple[str, bool, bool]] = set()
    functions: list[tuple[str, int]] = []
    words: set[str] = set()
    texts: set[str] = set()
    keys: set[str] = set()
    calls: set[str] = set()
    lines: set[int] = set()
    tree = ast.parse(path.read_text())
    pending: list[tuple[ast.AST, bool, bool, bool]] = [(tree, False, False, False)]
    while pending:
        node, types, later, encodes = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {(name, types, later) for name in _names(node, path)}
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value.isidentifier():
                texts.add(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words.add(node.target.id)
        elif isinstance(node, ast.keyword) and node.arg is not None:
            words.add(node.arg)
        elif isinstance(node, ast.Call):
            calls.add(_dotted(node.func))
        elif isinstance(node, ast.Dict) and encodes:
            keys |= {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.If):
            types |= "TYPE_CHECKING" in ast.unparse(node.test)
        elif isinstance(node, ast.FunctionDef):
            later = True
            encodes |= ENCODES.match(node.name) is not None
            functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
        pending += ((child, types, later, encodes) for child in ast.iter_child_nodes(node))
    public = (each for each in tree.body if isinstance(each, ast.FunctionDef) and not each.decorator_list)
    return Module(
        frozenset(imported),
        tuple(functions),
        tuple(each.name for each in public if each.name[0] != "_"),
        frozenset(words | texts),
        frozenset(texts),
        frozenset(keys),
        frozenset(calls),
        frozenset(lines),
    )


def _names(node: ast.Import | ast.ImportFrom, path: Path) -> tuple[str, ...]:
    """Return the modules, and the names out of them, that a statement imports."""
    if isinstance(node, ast.Import):
        return tuple(alias.name for alias in node.names)
    module = node.module or ""
    if node.level:
        assert is_on_host(path), f"{shown(path)}: a relative import hides which room it reaches"
        above = ".".join(path.relative_to(ROOT).parts[: -node.level])
        module = f"{above}.{module}".removesuffix(".")
    return (module, *(f"{module}.{alias.name}" for alias in node.names))


def _dotted(node: ast.expr) -> str:
    """Return a name with its dots, "" for what is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def reached(path: Path, modules: set[str], *, types: bool = False, later: bool = True) -> set[str]:
    """Return our modules that a file imports; `from package import module` reaches the module."""
    found = imports(path, types=types, later=later) & modules
    return {name for name in found if not any(other.startswith(name + ".") for other in found)}


def top(module: str) -> str:
    return module.partition(".")[0]


def is_on_host(path: Path) -> bool:
    return shown(path).startswith(ON_HOST)
