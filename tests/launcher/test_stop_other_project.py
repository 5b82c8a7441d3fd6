"""`gpulaunch stop last` in a directory that has no run of its own: the last run may be of another project."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.exit_codes import ExitCode
from tests.command_server import run_module
from tests.launcher.terminal import RUN, Home

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.end_all()


def test_the_run_of_another_project_is_stopped_by_its_name_or_after_a_question(
    home: Home, tmp_path: Path
) -> None:
    home.launch("import time; time.sleep(60)")
    project = tmp_path / "other"
    project.mkdir()
    where = ("-i", str(home.inventory), "--hosts", "localhost")

    refused = run_module("launcher.cli", ("stop", "last", *where), project, home.env, 90.0)
    assert refused.returncode == ExitCode.USAGE, refused.stdout + refused.stderr
    assert f"it was launched in {home.home}, not in this directory" in refused.stderr
    assert f" --hosts localhost {RUN}\n" in refused.stderr  # stopped without a question
    assert home.phase() == "running"
    read = run_module("launcher.cli", ("logs", "last", *where), project, home.env, 90.0)
    assert f"it was launched in {home.home}, not in this directory" in read.stderr

    stopped = run_module("launcher.cli", ("stop", "last", "--yes", *where), project, home.env, 90.0)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert f"{RUN} has ended on localhost" in stopped.stdout


def test_the_run_of_this_project_is_stopped_without_a_question(home: Home) -> None:
    home.launch("import time; time.sleep(60)")
    stopped = home.gpulaunch("stop", "last", "-i", str(home.inventory), "--hosts", "localhost")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "it was launched in" not in stopped.stderr
