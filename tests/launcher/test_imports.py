"""Who may import what: one wing never the other, and each dangerous library has one door."""

import ast
import functools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for room in ("launcher", "preflight") for path in (ROOT / room).rglob("*.py"))
OURS = {"launcher", "preflight", "tests", "bench", "templates"}
ON_HOST = ("preflight/agent.py", "preflight/probes/", "launcher/onhost/")
ROOMS_ON_HOST = ("preflight.probes", "launcher.onhost")

# Where each may be imported; a trailing / is a folder.
DOORS = {
    "paramiko": ("launcher/transports/ssh/",),
    "cryptography": ("launcher/transports/ssh/",),
    "click": ("launcher/cli.py", "launcher/commands/"),
    "psutil": ("preflight/probes/processes/head.py",),
    "pynvml": (),  # its source is handed to the agent
    "subprocess": ("launcher/transports/", *ON_HOST),
    "socket": ("launcher/transports/", *ON_HOST),
    "torch": ("launcher/onhost/",),
    "yaml": (
        "launcher/config/yaml_tree.py",
        "launcher/config/yaml_nodes.py",
        "preflight/script/interpreter/config_files.py",
    ),
    "rich": ("launcher/text.py", "launcher/host_checks/live_table.py"),
}


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


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if shown(path).startswith("preflight/")], ids=shown
)
def test_preflight_never_imports_launcher(path: Path) -> None:
    assert {module for module in imports(path) if top(module) in OURS - {"preflight"}} == set()


@pytest.mark.parametrize("path", [path for path in SOURCES if is_on_host(path)], ids=shown)
def test_what_travels_to_a_host_needs_only_the_standard_library_and_what_travels_with_it(path: Path) -> None:
    allowed = set(sys.stdlib_module_names)
    if shown(path).startswith("preflight/"):
        allowed |= {"psutil", "pynvml"}
    elsewhere = {module for module in imports(path) if not module.startswith(ROOMS_ON_HOST)}
    assert {top(module) for module in elsewhere} - allowed == set()


@pytest.mark.parametrize("path", [path for path in SOURCES if is_on_host(path)], ids=shown)
def test_what_travels_to_a_host_parses_as_python_3_9(path: Path) -> None:
    assert ast.parse(path.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("library", DOORS)
def test_a_library_has_its_door(library: str) -> None:
    users = {shown(path) for path in SOURCES if library in {top(module) for module in imports(path)}}
    assert {user for user in users if not user.startswith(DOORS[library])} == set()
