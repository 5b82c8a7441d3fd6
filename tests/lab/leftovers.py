"""Processes that dead runs left on simulated hosts, and `gpulaunch` run against them."""

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.command_server import run_module
from tests.lab.hosts import Lab, LabHost, LabProcess

ROOT = Path(__file__).parents[2]
RANK = {"TORCHELASTIC_RUN_ID": "left", "RANK": "0", "LOCAL_RANK": "0", "MASTER_PORT": "29500"}
COMPUTE = [sys.executable, "-m", "tests.lab.silicon.compute"]


def gpulaunch(lab: Lab, *argv: str, home: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command line as a user whose ssh_config knows the lab."""
    (home / ".ssh").mkdir(parents=True, exist_ok=True, mode=0o700)
    (home / ".ssh" / "known_hosts").write_bytes(Path(lab.known_hosts).read_bytes())
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(home / "state")}
    return run_module("launcher.cli", [*argv, "-i", str(lab.inventory_path)], home, env, 120.0)


def holder(host: LabHost, *options: str, env: dict[str, str] | None = None, user: str = "root") -> LabProcess:
    """A process that holds simulated GPUs on the host; returns once it does."""
    process = host.popen([*COMPUTE, *options], env={"PYTHONPATH": str(ROOT), **(env or {})}, user=user)
    process.read_line()
    return process


def orphan(host: LabHost, *options: str) -> int:
    """A rank whose launcher is gone; returns its pid as the host numbers it."""
    code = textwrap.dedent(
        """
        import os, subprocess, sys
        child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True, start_new_session=True)
        child.stdout.readline()
        print(child.pid, flush=True)
        os._exit(0)
        """
    )
    done = host.run([sys.executable, "-c", code, *COMPUTE, *options], env={"PYTHONPATH": str(ROOT), **RANK})
    return int(done.stdout)


def alive(host: LabHost, pid: int) -> bool:
    return host.state(pid) not in ("", "Z", "X")


def until(condition: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def found(answer: "subprocess.CompletedProcess[str]", host: str = "titan") -> dict[int, dict[str, Any]]:
    document = json.loads(answer.stdout)
    return {each["pid"]: each for each in document["hosts"][host]["processes"]}
