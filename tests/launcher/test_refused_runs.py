"""A launch that its host has refused: what commands say of a run that never was."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.asked_runs import ended as ended_there
from tests.launcher.terminal import RUN, Home

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.end_all()


def test_a_slip_in_the_name_of_a_run_is_answered_with_the_name(home: Home) -> None:
    home.launch("print('done')", detach=False)
    for slip, meant in (("lsat", "last"), ("rr-1", "r-1")):
        refused = home.gpulaunch("logs", slip)
        assert refused.returncode == 2
        assert (
            f'  fix: did you mean "{meant}"? Otherwise gpulaunch ps --all lists your runs' in refused.stderr
        )
    assert "did you mean" not in home.gpulaunch("logs", "quite-another").stderr


def test_last_is_no_slip_where_no_run_is_found(home: Home) -> None:
    refused = home.gpulaunch("logs", "last")
    assert refused.returncode == 2
    assert "  fix: gpulaunch ps --all lists your runs" in refused.stderr


def test_a_run_that_its_host_refused_has_not_been_removed_by_anyone(home: Home) -> None:
    home.launch("print('done')", detach=False)
    ended_there(home)
    shutil.rmtree(home.runs / RUN)
    kept = home.home / "gpulaunch-runs" / RUN / "outcome.json"
    outcome = json.loads(kept.read_text())
    refused = {"verdict": "aborted", "run_dirs": {}, "why": "localhost: No space left on device"}
    kept.write_text(json.dumps({**outcome, **refused}))
    lost = home.gpulaunch("logs", "last")
    assert (lost.returncode, lost.stdout) == (5, "")
    assert f"{RUN} never started: localhost: No space left on device" in lost.stderr
    assert f"gpulaunch report {RUN} shows what is kept locally" in lost.stderr
