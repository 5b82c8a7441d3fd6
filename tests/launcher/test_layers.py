"""Packages lie in layers: an import points down."""

from collections import defaultdict

import pytest

from tests.launcher.layers import (
    CIRCLES,
    LAYERS,
    MODULES,
    MOST_LINES_OF_FUNCTION,
    MOST_LINES_OF_MODULE,
    MOST_MODULES,
    circles,
    edges,
    unit,
)
from tests.launcher.sources import ROOT, read, shown


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
        for name, others in edges().items()
        for other in others
        if unit(name) in depth and unit(other) in depth
        if unit(name) != unit(other) and depth[unit(other)] <= depth[unit(name)]
    ]
    assert up == []


def test_modules_import_each_other_in_no_circle_that_is_not_declared() -> None:
    found = list(circles(edges()))
    packages = [{name.rpartition(".")[0] for name in group} for group in found]
    assert [group for group, inside in zip(found, packages, strict=True) if not inside <= set(CIRCLES)] == []
    assert {package for inside in packages for package in inside} == set(CIRCLES)  # none is declared in vain
    assert all(len(inside) == 1 for inside in packages)


def test_packages_inside_a_package_import_each_other_in_no_circle() -> None:
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    between: dict[str, set[str]] = defaultdict(set)
    for name, others in edges().items():
        for other in others:
            one, two = (part if part in packages else part.rpartition(".")[0] for part in (name, other))
            inside = [package for package in (one, two) if package.count(".") > 1]
            if len(inside) == 2 and one != two and one.rpartition(".")[0] == two.rpartition(".")[0]:
                between[one].add(two)
    assert any(between.values())
    assert list(circles(between)) == []


@pytest.mark.parametrize("wing", LAYERS)
def test_few_modules_lie_beside_the_packages(wing: str) -> None:
    loose = [path.name for path in (ROOT / wing).glob("*.py") if path.name != "__init__.py"]
    assert len(loose) <= MOST_MODULES[wing], sorted(loose)


def test_modules_and_functions_are_short() -> None:
    long = []
    for name, path in MODULES.items():
        if path.read_bytes().count(b"\n") > MOST_LINES_OF_MODULE:
            long.append(name)
        long += [f"{name}.{each}" for each, lines in read(path).functions if lines > MOST_LINES_OF_FUNCTION]
    assert sum(len(read(path).functions) for path in MODULES.values()) > 5000
    assert long == []


def test_modules_of_tests_and_benchmarks_are_short() -> None:
    found = [path for room in ("tests", "bench") for path in (ROOT / room).rglob("*.py")]
    assert len(found) > 500
    assert [shown(path) for path in found if path.read_bytes().count(b"\n") > MOST_LINES_OF_MODULE] == []
