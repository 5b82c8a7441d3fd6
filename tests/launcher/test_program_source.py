"""A program of several modules travels as one text."""

import ast
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.remote import program_source
from launcher.remote.program_source import (
    _PROBES,
    build_bootstrap_argv,
    bundle,
    compress_program,
    read_agent_source,
    read_program_source,
    rebase_probes,
    rebase_shared,
)

ONHOST = Path(__file__).parents[2] / "launcher" / "onhost"
SHARED = ("answer", "event_file", "exit_status", "nvml", "procfs", "run_cgroup")
PROGRAM = """\
import sys, traceback
from .parts import SIDE
from .parts.deep.leaf import fail, where

def main() -> Absent | None:
    print(__name__, SIDE, where())
    if "fail" in sys.argv:
        try:
            fail()
        except ValueError:
            traceback.print_exc()
    return 3

if __name__ == "__main__":
    sys.exit(main())
"""
PARTS = {
    "__init__.py": "SIDE = 'side'\n",
    "deep/__init__.py": "",
    "deep/leaf.py": (
        '"""A leaf\n\nthat says "where".\n"""\n'
        "from .. import SIDE\n\ndef where(at: Absent | None = None):\n    return __name__ + SIDE\n\n"
        "def fail():\n    raise ValueError('of the leaf')\n"
    ),
}


@pytest.fixture
def source(tmp_path: Path) -> bytes:
    for name, text in {"prog.py": PROGRAM, **{f"parts/{name}": text for name, text in PARTS.items()}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return bundle("prog", tmp_path / "prog.py", sorted((tmp_path / "parts").rglob("*.py")))


def run(source: bytes, *args: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    argv, stdin = build_bootstrap_argv(sys.executable, *args), compress_program(source)
    return subprocess.run(argv, input=stdin, capture_output=True, cwd=cwd, timeout=60, check=False)


def test_modules_are_imported_from_what_travelled(source: bytes, tmp_path: Path) -> None:
    ended = run(source, cwd=tmp_path)
    assert ended.stdout.decode().split() == ["__main__", "side", "gpulaunch_prog.parts.deep.leafside"]
    assert (ended.returncode, ended.stderr) == (3, b"")


def test_a_traceback_names_the_module_and_shows_its_line(source: bytes, tmp_path: Path) -> None:
    said = run(source, "fail", cwd=tmp_path).stderr.decode()
    assert 'File "gpulaunch_prog/parts/deep/leaf.py", line 11, in fail' in said
    assert "raise ValueError('of the leaf')" in said


def test_the_text_can_be_executed_in_a_namespace_of_somebody_else(source: bytes) -> None:
    program = (
        "import sys; scope = {'__name__': 'other'}; exec(sys.stdin.read(), scope); print(scope['main']())"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        input=source,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr == b""
    assert ended.stdout.decode().split() == ["other", "side", "gpulaunch_prog.parts.deep.leafside", "3"]


# The programs of several modules: what runs, where the others lie, and how many files there do not travel.
PROGRAMS = {
    "agent": ("preflight/probes/main.py", "preflight/probes", 2),
    **{
        name: (f"launcher/onhost/{name}/main.py", f"launcher/onhost/{name}", 2)
        for name in ("supervisor", "sync", "gauge", "rank", "guard", "deep")
    },
}


class WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def program(text: str) -> str:
    """Return what a text does, and where each part of that begins."""
    tree = WithoutDocstrings().visit(ast.parse(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            node.end_lineno = node.end_col_offset = None  # a body that is all docstring ends elsewhere
    return ast.dump(tree, include_attributes=True)


def packed(source: bytes) -> tuple[str, dict[str, str]]:
    """Return the first module of a program that travels, and the modules beside it."""
    assigned = ast.parse(source).body[-2]
    assert isinstance(assigned, ast.Assign)
    main, parts = ast.literal_eval(assigned.value)
    return main, parts


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_travels_lacks_nothing_but_docstrings(name: str) -> None:
    root = Path(__file__).parents[2]
    door, package = (root / path for path in PROGRAMS[name][:2])
    main, parts = packed(read_agent_source() if name == "agent" else read_program_source(name))
    shared_by = {"launcher/onhost": SHARED, "preflight/probes": _PROBES} if name != "agent" else {}
    others = {module: f"{room}/{module}.py" for room, modules in shared_by.items() for module in modules}
    for module in others.keys() & parts.keys():
        shared = (root / others[module]).read_text()
        assert program(parts.pop(module)) == program(rebase_probes(shared, module))
    for module, text in {name: main, **parts}.items():
        path = door.parent.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        file = door if module == name else file
        assert program(text) == program(rebase_probes(rebase_shared(file.read_text()), module)), file
        assert ast.get_docstring(ast.parse(text)) in ("", None)
    assert len(parts) == len(list(package.rglob("*.py"))) - PROGRAMS[name][2]


def imported(text: str) -> set[str]:
    """Return which shared modules a program's text holds, and which it imports."""
    return {name for name in (*SHARED, *_PROBES) if f"{name} import" in text}


@pytest.mark.parametrize(
    "name",
    [
        path.stem
        for path in ONHOST.glob("*.py")
        if path.stem not in ("__init__", "loader", "answer", "nvml", "procfs", "run_cgroup")
    ],
)
def test_a_program_of_one_file_travels_with_the_shared_modules_it_imports(name: str) -> None:
    file = ONHOST / f"{name}.py"
    if not imported(file.read_text()):
        assert program(read_program_source(name).decode()) == program(file.read_text())
        return
    main, parts = packed(read_program_source(name))
    assert set(parts) == imported(main) | {each for text in parts.values() for each in imported(text)}
    assert program(main) == program(rebase_probes(file.read_text(), name))


def test_a_program_that_does_not_arrive_is_waited_for_only_so_long_and_then_not_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program_source, "ARRIVES_S", 1)
    whole = compress_program(b"import signal, sys\nsys.exit(signal.alarm(0))", "timed")
    argv = build_bootstrap_argv(sys.executable)
    ends = []
    for data in (whole, whole[:-1]):
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:  # whose end stays open
            assert process.stdin is not None
            process.stdin.write(data)
            process.stdin.flush()
            ends.append(process.wait(60))
    assert ends == [0, -signal.SIGALRM]
