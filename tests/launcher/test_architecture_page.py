"""docs/architecture.md shows the tree and the layers as they are."""

import re

import pytest

from tests.launcher.layers import LAYERS
from tests.launcher.sources import ROOT, SOURCES

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("wing", LAYERS)
def test_the_page_draws_these_layers(wing: str) -> None:
    """One node of the picture is one layer, in this order."""
    (picture,) = re.findall(rf"```mermaid\n%% {wing}\n(.*?)```", PAGE, re.DOTALL)
    drawn = [tuple(row.split(", ")) for row in re.findall(r'\["([\w, ]+)"\]', picture)]
    assert drawn == [tuple(sorted(layer)) for layer in LAYERS[wing]]
    numbers = re.findall(r"^ *(\w+)\[", picture, re.MULTILINE)
    assert re.findall(r"^ *(\w+(?: --> \w+)+)$", picture, re.MULTILINE) == [" --> ".join(numbers)]


def test_the_tree_of_the_page_names_every_package_and_module_beside_them() -> None:
    (tree,) = re.findall(r"```text\nlauncher/\n(.*?)```", PAGE, re.DOTALL)
    drawn = set(re.findall(r"^ +(\w+)(?:/|\.py)", tree, re.MULTILINE))
    assert {name for wing in LAYERS for layer in LAYERS[wing] for name in layer} - drawn == set()


def test_names_that_the_page_says_to_use_exist() -> None:
    (table,) = re.findall(r"## To add\n(.*?)\n## ", PAGE, re.DOTALL)
    named = set(re.findall(r"`(\w+\.\w+|[A-Za-z_]+)`", table)) - {"main.py", "call_table.py"}
    texts = {path.stem: path.read_text("utf-8") for path in SOURCES if not path.name.startswith("_")}
    assert len(named) > 8
    for name in sorted(named):
        module, dot, function = name.rpartition(".")
        said = (
            f"def {function}(" in texts[module] if dot else re.search(rf"\b{name}\b", "".join(texts.values()))
        )
        assert said, name


def test_paths_that_the_page_names_exist() -> None:
    named = set(re.findall(r"(?<![\w/])((?:launcher|preflight|tests|docs|bench)/[\w./*-]+)", PAGE))
    assert len(named) > 30
    assert sorted(path for path in named if not any(ROOT.glob(path.rstrip("/.")))) == []
