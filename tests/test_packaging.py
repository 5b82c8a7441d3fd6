"""What is installed and what is packed: our own names win, and a source distribution is a whole checkout."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALWAYS_PACKED = {"LICENSE", "README.md", "pyproject.toml", ".gitignore"}
NEVER_PACKED = {".github"}  # for the repository itself


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project that has packages of our names."""
    for name in ("launcher", "preflight"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('this is the project')\n")
    (tmp_path / "gpulaunch").mkdir()  # run configs
    return tmp_path


@pytest.mark.parametrize(
    "command", [("-c", "import sys; from gpulaunch import main; sys.exit(main())"), ("-m", "gpulaunch")]
)
def test_a_project_with_packages_of_our_names_is_not_taken_for_us(
    command: tuple[str, str], project: Path
) -> None:
    env = {**os.environ, "PYTHONPATH": f".{os.pathsep}{ROOT}"}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, *words]
        return subprocess.run(
            argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    assert "this is the project" in run("-c", "import launcher.cli").stderr, "the path does lead there"
    done = run(*command, "schema", "hosts")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpulaunch" in done.stdout


def test_python_m_launcher_is_the_command_though_a_project_has_a_package_called_preflight(
    project: Path,
) -> None:
    for path in (project / "launcher").iterdir():
        path.unlink()
    (project / "launcher").rmdir()
    env = {**os.environ, "PYTHONPATH": f".{os.pathsep}{ROOT}"}
    argv = [sys.executable, "-m", "launcher", "schema", "hosts"]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpulaunch" in done.stdout


def test_every_package_of_the_wheel_says_that_it_is_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {"launcher", "preflight"} <= set(packages)
    for name in packages:
        assert (ROOT / name / "py.typed").read_bytes() == b"", name  # PEP 561


def test_a_source_distribution_holds_all_that_a_checkout_holds() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packed = {path.strip("/") for path in settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        tops = {name.partition("/")[0] for name in listed.stdout.splitlines()}
        assert tops <= packed | ALWAYS_PACKED | NEVER_PACKED
    for name in re.findall(r"(?<![\w/])\.ci/[\w-]+", (ROOT / "Makefile").read_text()):
        assert os.access(ROOT / name, os.X_OK), name
        assert ".ci" in packed
