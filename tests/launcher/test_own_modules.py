"""What a launch knows of the script's own modules, which lie on this machine or in the tree of a sync."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.config.run_config import Overrides, build_command_config
from launcher.host_checks.evaluation import PreflightResult, evaluate_facts
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.planning.script_file import find_tree
from launcher.remote.agent import GatherResult
from preflight.facts.host import ScriptFacts
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
        facts = replace(facts, script=ScriptFacts(there, "0", len(TRAIN), TRAIN))
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
        ("python train.py", False, "/home/ada/project/train.py", ""),  # nobody knows what lies beside it
        ("python -m pkg.train", True, "", "pkg/model.py:3"),
        ("python -m pkg.train", False, "", ""),
        ("python -m pkg.nothing", True, "", ""),
        ("python -m torch.distributed.nothing", True, "", ""),
    ],
)
def test_modules_in_the_tree_of_a_sync_are_read(command: str, *, sync: bool, there: str, found: str) -> None:
    assert faults(judged(command, sync=sync, there=there)) == ([f"{found} P101"] if found else [])


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
