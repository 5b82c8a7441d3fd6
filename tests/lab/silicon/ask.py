"""Asks a staged simulated NVML from a test: the real pynvml in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.lab.silicon.profile import Profile
from tests.lab.silicon.state import stage

ASKER = Path(__file__).with_name("asker.py")
Call: TypeAlias = tuple[str, Sequence[Any]]


def environment(directory: Path) -> dict[str, str]:
    """What a process needs to find the GPUs staged in `directory`."""
    paths = f"{directory / 'bin'}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    return {
        **os.environ,
        "SILICON_STATE": str(directory),
        "LD_LIBRARY_PATH": str(directory / "lib"),
        "PATH": paths,
    }


def ask(directory: Path, gpu: Sequence[Call] = (), system: Sequence[Call] = ()) -> Any:
    """Answers of the NVML in `directory`: {"system": [...], "gpu": [[...] per GPU]}, or {"error": N}."""
    done = subprocess.run(
        (sys.executable, str(ASKER)),
        input=json.dumps({"gpu": gpu, "system": system}),
        capture_output=True,
        text=True,
        env=environment(directory),
        timeout=30,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def ask_profile(
    profile: Profile, directory: Path, gpu: Sequence[Call] = (), system: Sequence[Call] = ()
) -> Any:
    """The same, with the profile staged first."""
    return ask(stage(profile, directory), gpu, system)


def smi(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the nvidia-smi stand-in on what is staged."""
    return subprocess.run(
        (str(directory / "bin" / "nvidia-smi"), *arguments),
        capture_output=True,
        text=True,
        env=environment(directory),
        timeout=30,
        check=False,
    )
