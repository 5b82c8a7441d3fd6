"""Packages lie in layers: an import points down."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from tests.launcher.test_imports import ROOT, SOURCES, reached, shown

# From top to bottom; those of one layer do not import each other. Root modules have a place too.
LAYERS = {
    "launcher": (
        ("__main__",),
        ("cli",),
        ("commands", "crash_log"),
        ("restart",),
        ("rehearsal", "runs"),
        ("launch",),
        ("report",),
        ("cleanup", "host_checks", "scaffold", "sync"),
        ("terminal",),
        ("follow", "slurm"),
        ("remote",),
        ("planning", "transports"),
        ("config", "lint", "rundir"),
        ("engines", "error_codes", "local"),
        ("errors",),
        ("durations", "exit_codes", "onhost", "safe_json", "text", "version"),
    ),
    "preflight": (
        ("checks", "diagnosis", "smi_reports"),
        ("agent", "decide", "leftovers", "script"),
        ("facts", "probes"),
        ("errors", "job"),
        ("frozen",),
    ),
}
MOST_MODULES = {"launcher": 10, "preflight": 4}  # beside the packages
CIRCLES = {
    "preflight.script.interpreter": "statements hold expressions, these hold calls, calls run statements"
}
"""Packages whose own modules may import each other in a circle, and why."""

MODULES = {
    shown(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in SOURCES
}
EDGES = {name: reached(path, set(MODULES), types=True) - {name} for name, path in MODULES.items()}
"""What imports what, blocks for type checkers included."""


def unit(module: str) -> str:
    """Return the package of a wing that a module belongs to, or the module's own name."""
    return ".".join(module.split(".")[:2])


def circles(edges: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield every set of names that reach each other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges.get(name, ())):
            if other not in index:
                yield from visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group = sorted(stack[at:])
            del stack[at:]
            if len(group) > 1:
                yield group

    for name in sorted(edges):
        if name not in index:
            yield from visit(name)


def test_circles_are_found() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}})) == [["b", "c"]]
    assert list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == []


@pytest.mark.parametrize("wing", LAYERS)
def test_every_package_has_a_layer(wing: str) -> None:
    placed = [f"{wing}.{name}" for layer in LAYERS[wing] for name in layer]
    assert sorted(placed) == sorted({unit(name) for name in MODULES if name.startswith(f"{wing}.")})


@pytest.mark.parametrize("wing", LAYERS)
def test_imports_point_to_lower_layers(wing: str) -> None:
    depth = {f"{wing}.{name}": place for place, layer in enumerate(LAYERS[wing]) for name in layer}
    up = [
        f"{name} -> {other}"
        for name, others in EDGES.items()
        for other in others
        if unit(name) in depth and unit(other) in depth
        if unit(name) != unit(other) and depth[unit(other)] <= depth[unit(name)]
    ]
    assert up == []


def test_modules_import_each_other_in_no_circle_that_is_not_declared() -> None:
    found = list(circles(EDGES))
    packages = [{name.rpartition(".")[0] for name in group} for group in found]
    assert [group for group, inside in zip(found, packages, strict=True) if not inside <= set(CIRCLES)] == []
    assert {package for inside in packages for package in inside} == set(CIRCLES)  # none is declared in vain
    assert all(len(inside) == 1 for inside in packages)


def test_packages_inside_a_package_import_each_other_in_no_circle() -> None:
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    edges: dict[str, set[str]] = defaultdict(set)
    for name, others in EDGES.items():
        for other in others:
            one, two = (part if part in packages else part.rpartition(".")[0] for part in (name, other))
            inside = [package for package in (one, two) if package.count(".") > 1]
            if len(inside) == 2 and one != two and one.rpartition(".")[0] == two.rpartition(".")[0]:
                edges[one].add(two)
    assert any(edges.values())
    assert list(circles(edges)) == []


@pytest.mark.parametrize("wing", LAYERS)
def test_few_modules_lie_beside_the_packages(wing: str) -> None:
    loose = [path.name for path in (ROOT / wing).glob("*.py") if path.name != "__init__.py"]
    assert len(loose) <= MOST_MODULES[wing], sorted(loose)
