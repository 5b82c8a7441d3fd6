"""The table of engines: each row is one module, and nobody outside the package knows one."""

import inspect
from pathlib import Path

import pytest

import launcher.engines
from launcher.engines.base import DEFAULT_ENGINE, ENGINES, Engine, load_engine
from tests.launcher.test_layers import EDGES

PACKAGE = "launcher.engines"


def test_every_engine_module_is_one_row() -> None:
    lying = {path.stem for path in Path(launcher.engines.__path__[0]).glob("*.py")} - {"__init__", "base"}
    assert lying == {row.module for row in ENGINES.values()}
    assert DEFAULT_ENGINE in ENGINES


def test_outside_its_package_no_engine_is_imported_but_through_the_table() -> None:
    modules = {f"{PACKAGE}.{row.module}" for row in ENGINES.values()}
    users = {name for name, found in EDGES.items() if found & modules and not name.startswith(PACKAGE)}
    assert users == set()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_what_the_interface_asks_for(name: str) -> None:
    engine = load_engine(name)
    for member, of_interface in inspect.getmembers(Engine, inspect.isfunction):
        if not member.startswith("_"):
            assert inspect.signature(getattr(engine, member)) == inspect.signature(
                of_interface.__get__(engine)
            ), member
    assert isinstance(engine.launcher_module, str)
