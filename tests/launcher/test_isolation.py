"""No file that lies in a working directory or a home is imported by what gpulaunch runs on a host."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.follow import protocol
from launcher.onhost import find_interpreters
from launcher.remote.program_source import build_bootstrap_argv, build_stdin_command, read_program_source
from launcher.remote.pynvml_source import pack_pynvml
from tests.environment import account_home
from tests.preflight.agent_runs import payload, streamed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SENT = [*ROOT.glob("launcher/onhost/**/*.py"), *ROOT.glob("preflight/probes/**/*.py")]
FOREIGN = (
    "psutil",
    "pynvml",
    "torch",
    "accelerate",
    "sitecustomize",
    "usercustomize",
    "launcher",
    "preflight",
)


def imported() -> list[str]:
    """Return the modules of the standard library that anything names that is sent to a host."""
    trees = [ast.parse(path.read_text()) for path in SENT]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return sorted(name for name in names if name.partition(".")[0] in sys.stdlib_module_names)


def interpreters() -> Iterator[str]:
    """Yield every Python here that a host may have."""
    yield sys.executable
    for folder in (
        *os.environ["PATH"].split(os.pathsep),
        *map(str, account_home().glob(".pyenv/versions/*/bin")),
    ):
        if "shims" not in folder:
            yield from (
                str(path) for path in Path(folder).glob("python3.[0-9]*") if path.suffix[1:].isdigit()
            )


def supported() -> list[str]:
    """Return one of each version."""
    found = {Path(path).name: path for path in interpreters() if Path(path).name.startswith("python3.")}
    return [path for name, path in sorted(found.items()) if int(name.partition(".")[2]) >= 9]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory with a module of every name, each of which leaves a trace when it runs."""
    home = tmp_path / "home"
    home.mkdir()
    names = {*sys.stdlib_module_names, *sys.builtin_module_names, *FOREIGN, "gpulaunch_agent", "linecache"}
    for name in names:
        trace = f"open({str(tmp_path / 'ran')!r}, 'a').write({name + ' '!r})\nraise SystemExit(99)\n"
        (home / f"{name}.py").write_text(trace)
    (home / "start.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('start ')\n")
    return home


def ran(hostile: Path) -> str:
    trace = hostile.parent / "ran"
    return trace.read_text() if trace.exists() else ""


def surroundings(hostile: Path) -> dict[str, str]:
    """Return the environment of somebody who puts modules everywhere that Python looks."""
    return {
        **os.environ,
        "HOME": str(hostile),
        "XDG_STATE_HOME": str(hostile.parent / "state"),
        "PYTHONPATH": f":{hostile}:.",
        "PYTHONSTARTUP": str(hostile / "start.py"),
        "PYTHONINSPECT": "",
        "PYTHONUSERBASE": str(hostile),
    }


@pytest.mark.parametrize("python", supported())
def test_no_module_of_the_directory_or_of_pythonpath_is_imported(python: str, hostile: Path) -> None:
    plain = subprocess.run(
        (python, "-c", "import cmd"), cwd=hostile, capture_output=True, env={"PATH": ""}, check=False
    )
    assert plain.returncode == 99, "what the directory holds does run where nothing keeps it from that"
    (hostile.parent / "ran").unlink()
    imports = "".join(f"import {name}\n" for name in imported() if name != "sitecustomize")
    _, stdin = build_stdin_command(python, (imports + "print('whole')\n").encode(), b"")
    done = subprocess.run(
        build_bootstrap_argv(python, site=True),
        input=stdin,
        cwd=hostile,
        env=surroundings(hostile),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, ran(hostile)) == (0, b"whole\n", ""), done.stderr


def test_the_programs_themselves_run_in_such_a_directory(hostile: Path) -> None:
    env = surroundings(hostile)
    done = streamed(payload({}, pack_pynvml()), cwd=hostile, env=env)
    assert (done.returncode, ran(hostile)) == (0, ""), done.stderr
    facts = json.loads(done.stdout.partition(b"\nGPULAUNCH-FACTS-1 ")[2].partition(b"\n")[2])
    assert isinstance(facts["processes"]["processes"], list)

    command, request = (
        protocol.build_supervisor_argv(sys.executable, "list", "r1"),
        protocol.encode_request({"mode": "list"}),
    )
    done = subprocess.run(
        command, input=request, cwd=hostile, env=env, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, ran(hostile)) == (0, ""), done.stderr


@pytest.mark.parametrize(
    "name",
    [
        *(path.stem for path in (ROOT / "launcher/onhost").glob("*.py") if path.stem != "__init__"),
        *(path.parent.name for path in (ROOT / "launcher/onhost").glob("*/main.py")),
    ],
)
def test_no_program_imports_from_the_directory_before_it_reads_its_request(name: str, hostile: Path) -> None:
    argv, stdin = build_stdin_command(sys.executable, read_program_source(name), b"")
    subprocess.run(
        argv,
        input=stdin,
        cwd=hostile,
        env=surroundings(hostile),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran(hostile) == ""


def test_environments_are_asked_without_running_what_lies_there(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "packages" / "torch-2.9.1.dist-info").mkdir(parents=True)
    (tmp_path / "packages" / "torch-2.9.1.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.9.1\n")
    for name, value in surroundings(hostile).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'packages'}:{hostile}:.")
    answer = find_interpreters.query_interpreter(sys.executable)
    assert answer is not None
    assert answer[2] == "2.9.1", "a training would import it from there"
    assert ran(hostile) == ""
