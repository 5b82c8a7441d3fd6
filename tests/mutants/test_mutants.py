"""The mutants that are made of a source, and the list of those that change nothing."""

import ast
import gc
import os
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutants import run
from tests.mutants.operators import mutants
from tests.mutants.plugin import change_functions
from tests.mutants.targets import CRITICAL, ROOT, equivalents, sampled


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("x = a < b", ["x = (a <= b)"]),
        ("x = a == b", ["x = (a != b)"]),
        ("x = a is not None", ["x = (a is None)"]),
        ("x = a in b", ["x = (a not in b)"]),
        ("x = a < b <= c", ["x = (a <= b <= c)", "x = (a < b < c)"]),
        ("x = a and b > c", ["x = (a or b > c)", "x = (not (a)) and b > c", "x = a and (b >= c)"]),
        ("x = not a", ["x = (a)"]),
        ("x = a + 1", ["x = (a - 1)", "x = a + (2)"]),
        ("x = True", ["x = (False)"]),
        ("x = any(a)", ["x = (all(a))"]),
        ("x += y", ["x -= y"]),
        ("x = 1 if a else b", ["x = (2) if a else b", "x = 1 if (not (a)) else b"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if (not (a))]"]),
        ("for a in b:\n    break", ["for a in b:\n    continue"]),
        (
            "x = (a ==\n     b)\ny = 'ä' == x",
            ["x = ((a != b\n))\ny = 'ä' == x", "x = (a ==\n     b)\ny = ('ä' != x)"],
        ),
    ],
)
def test_one_operator_number_or_condition_is_changed_in_each(source: str, changed: list[str]) -> None:
    text = source.encode()
    assert sorted(each.apply(text).decode() for each in mutants(text)) == sorted(changed)


@pytest.mark.parametrize(
    "source",
    [
        "x: int | None",
        "@call(1 < 2)\ndef f(a: int | str) -> bool | None: ...",
        'f"{a < 1}"',
        "'1 < 2'",
        "if TYPE_CHECKING:\n    x = 1",
    ],
)
def test_annotations_decorators_and_texts_stay(source: str) -> None:
    assert mutants(source.encode()) == []


def test_what_runs_in_a_call_is_told_from_what_runs_at_import() -> None:
    found = mutants(
        b"x = 1\ndef f(a=2):\n    return 3\nclass C:\n    y = 4\n    def g(self): return lambda: 5\n"
    )
    assert [(each.old, each.in_function) for each in found] == [
        ("1", False), ("2", False), ("3", True), ("4", False), ("5", True),
    ]  # fmt: skip


def test_every_mutant_of_a_module_is_a_program_with_the_same_lines() -> None:
    source = (ROOT / "preflight/leftovers/selection.py").read_bytes()
    found = mutants(source)
    assert found
    for each in found:
        text = each.apply(source)
        ast.parse(text)
        assert text.count(b"\n") == source.count(b"\n")


def test_the_tests_of_a_module_are_files() -> None:
    assert [name for names in CRITICAL.values() for name in names if not (ROOT / name).is_file()] == []
    assert len(sampled()) > len(CRITICAL)


def test_every_equivalent_mutant_is_one_that_is_made() -> None:
    for row in equivalents():
        source = (ROOT / row.module).read_bytes()
        lines = source.decode().splitlines()
        made = {(lines[each.line - 1].strip(), each.old, each.new) for each in mutants(source)}
        assert (row.line, row.old, row.new) in made, row
        assert row.reason
    assert Path(ROOT / "tests/mutants/equivalent.toml").is_file()


def test_a_mutant_reaches_functions_that_are_kept_out_of_garbage_collection(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def answer():\n    return 1\n")
    answer = runpy.run_path(str(path))["answer"]
    gc.freeze()
    try:
        change_functions(str(path), mutants(path.read_bytes())[0].apply(path.read_bytes()))
    finally:
        gc.freeze()  # as conftest.py left it: the tests that follow are quicker so
    assert answer() == 2


class Proxy:
    """An object that warns when its class is asked for, as torch's deprecated names do."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise FutureWarning("deprecated")


def test_a_mutant_is_put_in_beside_objects_that_do_not_let_their_class_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def answer():\n    return 1\n")
    answer = runpy.run_path(str(path))["answer"]
    kept = Proxy()
    assert any(each is kept for each in gc.get_objects())
    try:
        change_functions(str(path), mutants(path.read_bytes())[0].apply(path.read_bytes()))
    finally:
        gc.freeze()
    assert answer() == 2


MODULE = "def answer():\n    return 1\n"


@pytest.mark.parametrize(
    ("tests", "kept", "printed"),
    [
        ("def test_a(): assert answer() == 1\n", ["test_a"], ""),
        (
            "def test_a(): assert answer() == 1\ndef test_b(): assert answer() == 2\n",
            ["test_a"],
            "1 tests fail without a mutant, and are left out\n",
        ),
    ],
    ids=["all pass", "one fails"],
)
def test_tests_that_fail_without_a_mutant_are_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tests: str,
    kept: list[str],
    printed: str,
) -> None:
    (tmp_path / "measured.py").write_text(MODULE)
    (tmp_path / "test_measured.py").write_text(f"from measured import answer\n{tests}")
    monkeypatch.chdir(tmp_path)
    reach = run._measure(["measured.py"], ["test_measured.py"])
    assert [name.partition("::")[2] for name in reach.seconds] == kept
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("call", "code"), [(lambda: 0, 0), (lambda: 1, 1), (lambda: os._exit(0), -1), (lambda: os._exit(1), -1)]
)
def test_code_that_ends_its_process_has_not_passed(call: Callable[[], int], code: int) -> None:
    assert run._fork(call, limit_s=60.0) == code


def test_a_line_within_a_table_is_tried_by_all_files_of_tests_that_reach_its_package() -> None:
    """Python keeps a table of constants as one, so that no test is seen on its later lines."""
    source = b"ROWS = (\n    1,\n    2,\n)\n"
    lines = {
        "a/table.py": {1: [""]},
        "a/reader.py": {1: ["", "test_a.py::one"]},
        "b/c.py": {1: ["test_b.py::x"]},
    }
    reach = run.Reach(lines, {"test_a.py::one": 2.0, "test_a.py::two": 1.0, "test_b.py::x": 1.0})
    for each in mutants(source):
        assert reach.task("a/table.py", each).tests == ("test_a.py::two", "test_a.py::one")
        assert reach.task("a/never_imported.py", each).tests == ()


def test_a_mutant_of_a_function_that_an_import_calls_is_tried_by_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "measured.py").write_text(
        f"{MODULE}def other():\n    return 2\nTABLE = other() + 3\nROW = (\n    4,\n)\n"
    )
    (tmp_path / "test_measured.py").write_text(
        "from measured import answer\ndef test_a(): assert answer() == 1\n"
    )
    monkeypatch.chdir(tmp_path)
    reach = run._measure(["measured.py"], ["test_measured.py"])
    tasks = [reach.task("measured.py", each) for each in mutants(Path("measured.py").read_bytes())]
    assert [(each.mutant.old, each.at_import) for each in tasks] == [
        ("1", False),
        ("2", True),
        ("other() + 3", True),
        ("3", True),
        ("4", True),
    ]


@pytest.mark.parametrize("crash", ["import no_such_module\n", "import os\nos._exit(1)\n", "def f(:\n"])
def test_a_recorder_that_crashes_is_no_test_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: str
) -> None:
    (tmp_path / "measured.py").write_text(MODULE)
    (tmp_path / "test_measured.py").write_text(crash)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="the tests were not recorded: pytest or its recorder ended with"):
        run._measure(["measured.py"], ["test_measured.py"])
