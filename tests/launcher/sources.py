"""The modules of the product as files, and what each imports."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for room in ("launcher", "preflight") for path in (ROOT / room).rglob("*.py"))
OURS = {"launcher", "preflight", "tests", "bench", "templates"}
ON_HOST = ("preflight/agent.py", "preflight/probes/", "launcher/onhost/")


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def imports(path: Path, *, types: bool = False) -> frozenset[str]:
    """Return the modules, and the names out of them, that a file imports; `types`: for type checkers too."""
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                assert is_on_host(path), f"{shown(path)}: a relative import hides which room it reaches"
                above = ".".join(path.relative_to(ROOT).parts[: -node.level])
                module = f"{above}.{module}".removesuffix(".")
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif not isinstance(node, ast.expr):  # no expression imports
            pending += ast.iter_child_nodes(node)
    return frozenset(found)


def reached(path: Path, modules: set[str], *, types: bool = False) -> set[str]:
    """Return our modules that a file imports; `from package import module` reaches the module."""
    found = imports(path, types=types) & modules
    return {name for name in found if not any(other.startswith(name + ".") for other in found)}


def top(module: str) -> str:
    return module.partition(".")[0]


def is_on_host(path: Path) -> bool:
    return shown(path).startswith(ON_HOST)
