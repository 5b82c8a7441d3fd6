"""A user of gpulaunch on this machine: a directory, the real command line, and GPUs that are simulated.

The local transport hands its environment down, so what the agent asks here is the simulated NVML.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.command_server import run_module
from tests.lab.silicon.ask import environment
from tests.lab.silicon.profile import Profile, load_profile
from tests.lab.silicon.state import stage

ROOT = Path(__file__).parents[1]
TORCH_BUILD = "ENV003,DRV003,GPU006"
"""What preflight says of this machine's torch wherever GPUs are simulated: it is a build for the CPU, or
(beside a real driver, or without an index of CPU builds) for newer drivers and GPUs than the profile has."""


FIRST_MINOR = 100
MAIN_PORT = 29600 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""Of this test process: two runs that look for a free port at the same moment find the same one."""


def own_gpus(profile: Profile, home: Path) -> Profile:
    """Return the profile with UUIDs and device files of its own: nothing beside it claims or holds its GPUs.

    This machine sees the processes of the simulated hosts too, which open /dev/nvidia0 of theirs.
    """
    gpus = []
    for number, gpu in enumerate(profile.gpus):
        name = f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'{home}/{number}')}"
        own = {"minor_number": str(FIRST_MINOR + number), "uuid": name}
        gpus.append(replace(gpu, values={**gpu.values, **own}))
    return replace(profile, gpus=tuple(gpus))


class User:
    """`profile` names the simulated GPUs of this machine; "" leaves it as it is."""

    def __init__(self, home: Path, profile: str = "") -> None:
        self.home = home
        home.mkdir(exist_ok=True)
        self.profile = own_gpus(load_profile(profile), home) if profile else None
        base = environment(stage(self.profile, home / "silicon")) if self.profile else dict(os.environ)
        ours = ("GPULAUNCH_", "ACCELERATE_", "RANK", "WORLD_SIZE", "LOCAL_RANK")
        self.env = {name: value for name, value in base.items() if not name.startswith(ours)} | {
            "PATH": f"{Path(sys.executable).parent}:{base['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(home / "state"),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def write(self, script: str, config: Mapping[str, Any]) -> None:
        """Write train.py, and job.yaml that sends it."""
        (self.home / "train.py").write_text(script)
        (self.home / "job.yaml").write_text(
            yaml.safe_dump({"script": "train.py", "send_script": True, "main_port": MAIN_PORT, **config})
        )

    def gpulaunch(self, *words: str, timeout_s: float = 150.0) -> "subprocess.CompletedProcess[str]":
        """Run gpulaunch to its end."""
        return run_module("launcher.cli", words, self.home, self.env, timeout_s)

    def outcome(self) -> dict[str, Any]:
        """Return what the newest run left as its outcome."""
        newest = max((self.home / "gpulaunch-runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        document: dict[str, Any] = json.loads((newest / "outcome.json").read_text())
        return document

    def log(self, rank: int = 0) -> str:
        """Return what a rank of the newest run has printed."""
        (path,) = (self.home / self.outcome()["logs"]).rglob(f"rank-{rank}.log")
        return str(path.read_text())

    def plan(self) -> dict[str, Any]:
        """Return the plan of the newest run."""
        text = (self.home / self.outcome()["logs"] / "plan.json").read_text()
        document: dict[str, Any] = json.loads(text)
        return document

    def ask(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run gpulaunch with --json; return exit code and document."""
        done = self.gpulaunch(words[0], "--json", *words[1:])
        assert "Traceback" not in done.stderr, done.stderr
        document: dict[str, Any] = json.loads(done.stdout or "{}")
        return done.returncode, document
