"""What a launch knows of the script's own modules, which lie on this machine or in the tree of a sync."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import build_command_config, load_run_config
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.result import PreflightResult
from launcher.planning.script_file import find_tree
from launcher.remote.agent import GatherResult
from preflight.checks.finding import Severity
from preflight.facts.host import ScriptFacts
from preflight.probes import script
from preflight.probes.request import read_request
from preflight.script.syntax_trees import Parser
from tests.hardware import l40s

TRAIN = """import torch
from pkg.model import load
model = load()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for batch in range(3):
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
"""
MODEL = """import torch
def load():
    return torch.nn.Linear(2, 2).half()
"""


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").touch()
    (folder / "pkg" / "model.py").write_text(MODEL)
    for place in ("train.py", "pkg/train.py"):
        (folder / place).write_text(TRAIN)
    monkeypatch.chdir(folder)
    return folder


def judged(command: str, *, sync: bool, local: bool = False, there: str = "") -> PreflightResult:
    """Return the findings of a launch whose main host has, or has not yet, the script `there`."""
    config = build_command_config(command.split(), Overrides(sync=sync, hosts=("l40s-01",)))
    facts = replace(l40s(1), host="localhost" if local else "l40s-01")
    if there:
        facts = replace(facts, script=ScriptFacts(there, "0", len(TRAIN), TRAIN, ("pkg",)))
    options = PreflightOptions(tree=find_tree(config))
    return evaluate_facts(
        [HostEntry(facts.host)], GatherResult({facts.host: facts}, {}), config.job, options=options
    )


def faults(result: PreflightResult) -> list[str]:
    return [f"{each.subject} {each.message[:4]}" for each in result.findings if each.code == "SCR001"]


@pytest.mark.parametrize(
    ("command", "sync", "there", "found"),
    [
        ("python train.py", True, "/home/ada/project/train.py", "/home/ada/project/pkg/model.py:3"),
        ("python pkg/train.py", True, "/home/ada/project/pkg/train.py", "/home/ada/project/pkg/model.py:3"),
        ("python train.py", True, "train.py", "pkg/model.py:3"),  # as it will be
        ("python -m pkg.train", True, "", "pkg/model.py:3"),
        ("python -m pkg.train", False, "", ""),
        ("python -m pkg.nothing", True, "", ""),
        ("python -m torch.distributed.nothing", True, "", ""),
    ],
)
def test_modules_in_the_tree_of_a_sync_are_read(command: str, *, sync: bool, there: str, found: str) -> None:
    assert faults(judged(command, sync=sync, there=there)) == ([f"{found} P101"] if found else [])


def test_modules_that_lie_on_the_main_host_alone_are_named() -> None:
    result = judged("python train.py", sync=False, there="/home/ada/project/train.py")
    assert faults(result) == ["/home/ada/project/train.py judg"]
    (said,) = (each for each in result.findings if each.code == "SCR001")
    assert (said.severity, said.message.rpartition(": ")[2]) == (Severity.INFO, "pkg")


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("import os, model as m, pkg.a\n", ["model", "pkg"]),
        ("if x:\n\tfrom pkg.a import b, model\n", ["pkg", "model"]),
        ("from . import model\nimport torch\nx = 'import pkg'\n", []),
        ("import data\n", []),  # a folder without modules
        ('"""\nfrom left to right, ... and back\n"""\nimport os, .b\n', []),  # no names: nothing beside it
    ],
)
def test_the_agent_names_what_of_a_scripts_imports_lies_beside_it(
    tree: Path, text: str, own: list[str]
) -> None:
    for place in ("[x]/data/a.csv", "[x]/pkg/a.py", "[x]/model.py", "[x]/train.py"):
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        (tree / place).write_text(text)
    found = {}
    request = read_request({"script": "train.py", "paths": {"workdir": str(tree / "[x]")}}, None)
    script.probe(request, lambda name, value: found.update({name: value}))
    assert found["script"]["own_modules"] == own


@pytest.mark.parametrize(
    ("keys", "tree_is"),
    [
        ("", "."),
        ("to: ~/p", None),  # hosts.yaml may say where the ranks start
        ("to: ~/p}\nworkdir: ~/p/", "."),
        ("to: ~/p/}\nworkdir: ~/p/pkg", "pkg"),
        ("to: ~/p/q}\nworkdir: ~/p", None),
        ("to: ~/p}\nworkdir: /home/ada/p", None),
    ],
)
def test_the_tree_of_a_sync_is_known_where_the_ranks_start_in_it(
    tree: Path, keys: str, tree_is: str | None
) -> None:
    end = "" if "}" in keys else "}"
    (tree / "c.yaml").write_text(f"script: train.py\nsync: {{from: ., {keys}{end}\n")
    config = load_run_config("c.yaml")
    assert find_tree(config) == (None if tree_is is None else Path(tree_is))


def test_on_this_machine_modules_are_read_where_they_lie(tree: Path) -> None:
    result = judged("python -m pkg.train", sync=False, local=True)
    assert faults(result) == [f"{tree}/pkg/model.py:3 P101"]
    assert result.script is not None
    assert result.script.style == "torch"


@pytest.mark.parametrize("local", [True, False])
def test_imports_of_a_module_that_is_run_start_from_the_working_directory(tree: Path, *, local: bool) -> None:
    (tree / "pkg" / "train.py").write_text(TRAIN.replace("pkg.model", "model"))
    (tree / "model.py").write_text(MODEL.replace(".half()", ""))
    assert faults(judged("python -m pkg.train", sync=not local, local=local)) == []
    (tree / "model.py").write_text(MODEL)
    (tree / "pkg" / "model.py").unlink()
    assert len(faults(judged("python -m pkg.train", sync=not local, local=local))) == 1


def test_what_lies_outside_the_tree_is_not_sent_and_not_read(tree: Path) -> None:
    (tree / "pkg").rename(tree.parent / "pkg")
    assert faults(judged("python train.py", sync=True, there="/home/ada/project/train.py")) == []


def test_the_plan_and_the_checks_share_one_tree_of_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = Parser._tree

    def parse(parser: Parser, path: str, text: str) -> ast.Module:
        read.append(path)
        return real(parser, path, text)

    monkeypatch.setattr(Parser, "_tree", parse)
    assert faults(judged("python train.py", sync=True, there="train.py")) == ["pkg/model.py:3 P101"]
    assert sorted(read) == ["pkg/model.py", "train.py"]
