"""The process beside a rank of the deep checks, with a real process that is stopped or blocked."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.deep import observer
from launcher.onhost.deep.clocks import read_throttled_s
from launcher.onhost.event_file import EVENTS
from launcher.rundir.event_schema import validate_event


def observed(place: Path, deadlines: bytes, *, stop: bool) -> list[dict[str, Any]]:
    """Return what is reported of a process after these lines on the pipe."""
    source, sink = os.pipe()
    os.write(sink, deadlines)
    os.close(sink)
    with subprocess.Popen(["sleep", "60"]) as rank:
        if stop:
            rank.send_signal(signal.SIGSTOP)
            os.waitpid(rank.pid, os.WUNTRACED)
        observer.observe_deadlines(str(place), 3, rank.pid, source)
        rank.kill()
    os.close(source)
    events = place / EVENTS
    return [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "GRACE_S", 0.0)
    monkeypatch.setattr(observer, "REPORT_SETTLE_S", 0.0)


@pytest.mark.parametrize("stop", [True, False])
def test_a_rank_that_misses_its_deadline_in_silence_is_reported(tmp_path: Path, *, stop: bool) -> None:
    silent, hung = observed(tmp_path, b"join inf\ndigest 0.0\n", stop=stop)
    assert (silent["kind"], silent["step"], silent["rank"]) == ("silent", "digest", 3)
    assert (silent["state"] == "T") is stop
    assert hung["event"] == "hung"
    assert "digest" in hung["why"]
    assert validate_event(silent) == validate_event(hung) == ""


def test_a_rank_that_reports_itself_or_goes_on_is_not_reported(tmp_path: Path) -> None:
    assert observed(tmp_path, b"join 0.0\nmemory 60.0\nmemory inf\n", stop=True) == []
    assert observed(tmp_path, b"join 60", stop=True) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("usage_usec 5\nthrottled_usec 2500000\n", 2.5),
        ("nr_throttled 2\nthrottled_time 4000000000\n", 4.0),
        ("throttled_usec x\n", 0.0),
        ("", 0.0),
    ],
)
def test_the_time_that_a_quota_held_back_is_read_in_both_forms(
    text: str, seconds: float, tmp_path: Path
) -> None:
    path = tmp_path / "cpu.stat"
    path.write_text(text)
    assert read_throttled_s(str(path)) == seconds
    assert read_throttled_s(str(tmp_path / "absent")) == 0.0
