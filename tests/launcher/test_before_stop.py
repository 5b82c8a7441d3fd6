"""`before_stop`: ranks are signalled themselves, have their time, and the end names what they saved."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.config.before_stop_options import BeforeStop
from launcher.config.run_config import load_run_config
from launcher.errors import ConfigError
from tests.field_notes.ranks import LIGHT, SHIMS, shimmed
from tests.torchless import write_python

ROOT = Path(__file__).parents[2]
SAVES = """
import json, os, pathlib, signal, sys, time
rank = os.environ["RANK"]
def note(name):
    with open("signals-" + rank, "a") as file:
        file.write(name + "\\n")
def save(number, frame):
    note(signal.Signals(number).name)
    if {save}:
        time.sleep(1)
        place = pathlib.Path("out/checkpoint-7"); place.mkdir(parents=True)
        (place / "model.json").write_text(json.dumps({{"step": 7}}))
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
signal.signal(signal.SIGTERM, lambda *_: (note("SIGTERM"), sys.exit(0)))
print("timeout", os.environ["PET_SHUTDOWN_TIMEOUT"], flush=True)
time.sleep(120)
"""


def stopped_run(
    place: Path, before: dict[str, Any], *, save: str, number: int, torchless: bool = False
) -> dict[str, Any]:
    """Run on this machine, send gpulaunch a signal once all ranks are up; return the outcome."""
    (place / "job.py").write_text(SAVES.format(save=save))
    if torchless:  # it is accelerate's stand-in that gets the time then
        (place / "hosts.yaml").write_text(
            json.dumps({"hosts": {"localhost": {"python": write_python(place)}}})
        )
    config: dict[str, Any] = {"engine": "accelerate"} if torchless else {}
    config |= {"script": "job.py", "gpus": "none", "processes_per_host": 2, "guard": "off", "output": "out"}
    (place / "job.yaml").write_text(json.dumps({**config, "before_stop": before, "grace": 5}))
    with subprocess.Popen(
        [sys.executable, "-m", "launcher", "run", "-c", "./job.yaml", "--json"],
        cwd=place,
        env={**os.environ, "HOME": str(place), **shimmed(LIGHT), "PYTHONPATH": f"{SHIMS}:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        seen = ""
        while seen.count("timeout 31") < 2:
            line = process.stderr.readline()
            assert line, seen
            seen += line
        process.send_signal(number)
        output, rest = process.communicate(timeout=60)
    outcome: dict[str, Any] = json.loads(output)
    outcome["said"] = seen + rest
    return outcome


@pytest.mark.train
def test_rank_0_alone_is_warned_saves_and_the_end_names_the_checkpoint(tmp_path: Path) -> None:
    before = {"signal": "USR1", "ranks": 0, "wait_s": 30}
    outcome = stopped_run(tmp_path, before, save="rank == '0'", number=signal.SIGUSR1)
    assert (tmp_path / "signals-0").read_text() == "SIGUSR1\n"
    assert (tmp_path / "signals-1").read_text() == "SIGTERM\n"
    assert outcome["stop_checkpoint"] == {"path": "checkpoint-7", "step": 7, "known": True, "why": ""}
    assert outcome["exit_code"] == 130
    assert "SIGUSR1 to rank 0, up to 30 s, then SIGTERM, 5 s, SIGKILL" in outcome["said"]
    assert "after the signal the run wrote checkpoint-7, and it is whole" in outcome["said"]


@pytest.mark.train
def test_all_ranks_are_warned_and_the_end_says_that_none_has_saved(tmp_path: Path) -> None:
    (tmp_path / "out/checkpoint-3").mkdir(parents=True)
    os.utime(tmp_path / "out/checkpoint-3", (1.0, time.time() - 60))
    before = {"signal": "USR1", "wait_s": 30}
    outcome = stopped_run(tmp_path, before, save="False", number=signal.SIGTERM, torchless=True)
    assert {(tmp_path / f"signals-{rank}").read_text() for rank in (0, 1)} == {"SIGUSR1\n"}
    assert outcome["stop_checkpoint"]["path"] is None
    assert "the run wrote no whole checkpoint after the signal" in outcome["said"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", BeforeStop()),
        ("{signal: USR2, ranks: 0, wait_s: 5m}", BeforeStop("USR2", "0", 300.0)),
        ("{signal: KILL}", "one of TERM, USR1"),
        ("{ranks: 3}", "one of all, 0"),
        ("{wait_s: 0}", "a duration from 1 s"),
        ("true", "a mapping of signal, ranks and wait_s"),
    ],
)
def test_what_the_key_takes(tmp_path: Path, text: str, expected: BeforeStop | str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"script: a.py\nbefore_stop: {text}\ngrace: 7\n")
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            load_run_config(str(path))
        return
    disconnect = load_run_config(str(path)).disconnect
    assert disconnect.before_stop == expected
    assert disconnect.stop_s == expected.wait_s + 7
