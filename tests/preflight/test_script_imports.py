"""The modules that a script imports, looked for as its interpreter would."""

import ast
import site
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.missing import Missing
from preflight.probes.python_env import import_path, probe
from preflight.probes.request import read_request
from preflight.probes.script_imports import list_absent_modules, list_imported_names
from preflight.script.lint import lint
from preflight.script.source import Sources, spawns_ranks
from preflight.script.syntax_trees import Parser

TEXT = """
import os, sys, mine.part, packaging_that_nobody_has.core
from __future_no__ import x
from .near import y
import helper
import namespace_only
try:
    import optional_one
except ImportError:
    pass
if sys.argv[1:]:
    import conditional_one
def late():
    import late_one
usage = '''
import only_in_text
'''
"""


def test_imports_that_surely_happen_count() -> None:
    names = ["os", "sys", "mine", "packaging_that_nobody_has", "__future_no__", "helper", "namespace_only"]
    assert list_imported_names(TEXT) == names
    with pytest.raises(SyntaxError):
        list_imported_names("import")


def test_what_neither_script_nor_interpreter_has_is_absent(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "helper.py").write_text("raise SystemExit('imported')")
    (tmp_path / "namespace_only").mkdir()
    (tmp_path / "train.py").write_text(TEXT)
    request = {"script": "train.py", "paths": {"workdir": str(tmp_path)}}
    assert list_absent_modules(read_request(request, None), import_path({})) == [
        "packaging_that_nobody_has",
        "__future_no__",
    ]
    (tmp_path / "src" / "packaging_that_nobody_has").mkdir(parents=True)
    more = read_request({**request, "env": {"PYTHONPATH": "/none:src"}}, None)
    assert list_absent_modules(more, import_path({})) == ["__future_no__"]
    sent = read_request({"modules": ["os", "helper", "pytest"]}, None)
    assert list_absent_modules(sent, [*import_path({}), *sys.path]) == ["helper"]
    tree = read_request({**request, "modules": ["helper", "packaging_that_nobody_has"]}, None)  # on its way
    assert list_absent_modules(tree, import_path({})) == ["packaging_that_nobody_has"]
    assert isinstance(list_absent_modules(read_request({**request, "modules": []}, None), []), dict)
    assert isinstance(list_absent_modules(read_request({}, None), []), dict | Missing)
    (tmp_path / "train.py").write_text("import\n")
    assert isinstance(list_absent_modules(read_request(request, None), []), dict)


def test_the_users_own_packages_count_as_for_their_python(monkeypatch: pytest.MonkeyPatch) -> None:
    users = site.getusersitepackages()
    monkeypatch.setattr(sys, "path", ["/lib"])
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)  # no virtual environment
    assert import_path({}) == [users, "/lib"]
    assert import_path({"PYTHONNOUSERSITE": "1", "PYTHONPATH": "/more:near"}) == ["/more", "/lib"]


def test_packages_are_those_of_the_python_path_that_the_launch_has(tmp_path: Path) -> None:
    (tmp_path / "torch-2.4.1.dist-info").mkdir()
    answers: dict[str, Any] = {}
    probe(read_request({"env": {"PYTHONPATH": f"near:{tmp_path}"}}, None), answers.__setitem__)
    assert answers["python"]["packages"]["torch"] == "2.4.1"


@pytest.mark.parametrize(
    ("script", "module"),
    [
        ("train.py", "pkg/model.py"),
        ("train.py", "src/pkg/model.py"),
        ("train.py", "../pkg/model.py"),
        ("pkg/train.py", "pkg/model.py"),  # a package that is installed from its own tree
        ("scripts/train.py", "pkg/model.py"),
        ("scripts/train.py", "src/pkg/model.py"),
        ("pkg/tools/train.py", "pkg/model.py"),
        ("/home/ada/pkg/tools/train.py", "/home/ada/pkg/model.py"),
        ("/home/ada/project/scripts/train.py", "/home/ada/project/pkg/model.py"),
    ],
)
def test_own_modules_are_found_from_the_folder_that_lint_is_typed_in(script: str, module: str) -> None:
    sources = Sources({module: "import torch"}.get)
    main = sources.add(script, "from pkg.model import load")
    assert sources.list_own_modules(main) == [module]


class _Unwalked(Parser):
    """A parser whose trees are not to be walked."""

    def nodes(self, tree: ast.AST) -> list[ast.AST]:
        raise AssertionError(tree)


@pytest.mark.parametrize(
    "text",
    ["import torch\n", "# accelerate launch train.py\n", "launcher = is_main_process = AutoProcessor = 1\n"],
)
def test_a_text_that_only_names_launchers_is_not_searched_for_starts_of_ranks(text: str) -> None:
    assert spawns_ranks(Sources().add("a.py", text), _Unwalked()) is False


@pytest.mark.parametrize(
    "start",
    [
        "mp.spawn(main, nprocs=2)",
        "start = mp.start_processes",
        "launch (main, 2)",
        "(launch)(main, 2)",
        "launch\\\n(main, 2)",
        "init_process_group('nccl'); mp.Process(target=main).start()",
    ],
)
def test_a_start_of_ranks_is_found_however_it_is_spelled(start: str) -> None:
    parser = Parser()
    assert spawns_ranks(Sources(None, parser).add("a.py", f"{start}\n"), parser) is True


def test_a_module_that_no_path_of_the_script_imports_is_read_for_the_rules_of_the_end() -> None:
    texts = {"wraps.py": "from torch.nn.parallel import DistributedDataParallel\n"}
    text = "class Late:\n    def go(self):\n        import wraps\n\nprint(1)\n"
    assert lint(text, "train.py", find=texts.get).files == ("train.py", "wraps.py")
