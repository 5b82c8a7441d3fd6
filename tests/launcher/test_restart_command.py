"""`restart:` through the command line, on this machine with simulated GPUs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.silicon.profile import load_profile
from tests.lab.silicon.state import state_text
from tests.users import CPU_WHEEL, User

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler")
RESTART: dict[str, Any] = {"max": 2, "resume_args": ["--resume", "{checkpoint}"], "backoff_s": 0}
# Rank 1 loses its GPU as a real one does: the driver stops answering for it, and the process is gone.
TRAIN = """
import json, os, pathlib, sys, time
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
begin = json.loads((pathlib.Path(sys.argv[2]) / "state.json").read_text())["step"] if sys.argv[1:] else 0
print(f"rank {rank} of {world} after step {begin}", flush=True)
folder = pathlib.Path(f"out/checkpoint-{begin + 5}")
if rank == 0:
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"step": begin + 5}))
while rank == 1 and not (folder / "state.json").exists():
    time.sleep(0.05)
if rank == 1:
    os.rename("silicon/lost", "silicon/state")
    os.kill(os.getpid(), 9)
time.sleep(60 if world > 1 else 0)
"""


def test_a_run_goes_on_without_the_gpu_that_was_lost(tmp_path: Path) -> None:
    user = User(tmp_path / "home", "2xl40s")
    profile = load_profile("2xl40s")
    lost = replace(profile, gpus=(profile.gpus[0], replace(profile.gpus[1], calls={"*": "return 15"})))
    (user.home / "silicon" / "lost").write_text(state_text(lost))
    user.write(TRAIN, {"gpus": "all", "output": "out", "guard": "off", "restart": RESTART})
    done = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", CPU_WHEEL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "localhost goes on with its other GPUs: gpu1: the GPU is lost" in done.stdout
    assert "world size 2 -> 1" in done.stdout
    assert "rank 0 of 1 after step 5" in done.stdout


def test_a_dry_run_says_what_happens_when_it_fails(tmp_path: Path) -> None:
    user = User(tmp_path / "home", "2xl40s")
    user.write("print(1)", {"gpus": "all", "restart": {**RESTART, "also": "oom", "spares": "s[1-2]"}})
    words = ("run", "-c", "./job.yaml", "--dry-run", "--ignore", CPU_WHEEL)
    told = user.gpulaunch(*words).stdout
    assert (
        "up to 2 restarts after a failure of this kind: host, network, gpu, outside, hang, storage, oom"
        in told
    )
    assert "spares: s1, s2" in told
    assert "with --resume {checkpoint} for the last whole one of checkpoint-*" in told
    code, plan = user.ask(*words, "--restarts", "7")
    assert (code, plan["restart"]["max"], plan["restart"]["spares"]) == (0, 7, ["s1", "s2"])
    assert user.ask(*words, "--no-restart")[1]["restart"] is None


def test_a_run_that_is_left_alone_cannot_be_started_again(tmp_path: Path) -> None:
    user = User(tmp_path / "home")
    user.write("print(1)", {"gpus": "none", "restart": RESTART})
    done = user.gpulaunch("run", "-c", "./job.yaml", "--detach")
    assert done.returncode == 2
    assert "--detach: whoever starts a run again must stay" in done.stderr
    assert "--no-restart" in done.stderr
    assert not (user.home / "gpulaunch-runs").exists()


def test_the_last_start_tells_of_all_and_its_exit_code_counts(tmp_path: Path) -> None:
    user = User(tmp_path / "home")
    user.write(
        "import os, sys\nsys.exit(7) if os.path.exists('x') else (open('x', 'w'), os.kill(os.getpid(), 9))",
        {"gpus": "none", "restart": {"max": 1, "backoff_s": 0, "also": ["script"]}},
    )
    done = user.gpulaunch("run", "-c", "./job.yaml", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 7, done.stderr
    assert [start["exit_code"] for start in told["restarts"]["starts"]] == [137, 7]
    assert told["restarts"]["stopped"] == "restarted once already, which is `max`"
    assert "not started again: restarted once already" in done.stderr
