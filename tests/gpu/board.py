"""The machine that is tested: its real GPU, or a simulated board that finds faults of this suite itself."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from tests.gpu.ledger import CannotRun

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
MARK = "GPULAUNCH_GPU_SUITE"
"""In the environment of all processes that the suite starts, with a value of its own per run."""

TORCH = "torch.json"
TORCH_S = 150.0  # the first import from a cold disk

OURS = ("GPULAUNCH_", "ACCELERATE_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SLURM_", "SHIM")


class NoGpu(Exception):
    """This machine has no GPU that the suite could test; the text says what is missing."""


@dataclass(frozen=True)
class Board:
    """Where the cases run. `env` is the environment of everything they start."""

    scratch: Path
    env: Mapping[str, str]
    simulated: str = ""  # the profile's name

    def run(
        self, argv: Sequence[str], limit_s: float = 60.0, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end. Raises TimeoutExpired."""
        return subprocess.run(
            argv,
            cwd=self.scratch,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )

    def smi_xml(self) -> str:
        """Return `nvidia-smi -q -x`. Raises NoGpu with what it printed instead."""
        try:
            done = self.run(("nvidia-smi", "-q", "-x"))
        except FileNotFoundError:
            raise NoGpu("there is no nvidia-smi: no NVIDIA driver is installed") from None
        except subprocess.TimeoutExpired:
            raise NoGpu("nvidia-smi has not answered for 60 s: the driver hangs") from None
        if done.returncode or "<gpu " not in done.stdout:
            said = " ".join((done.stderr + done.stdout).split())[:300]
            raise NoGpu(f"nvidia-smi shows no GPU (exit code {done.returncode}): {said}")
        try:
            ET.fromstring(done.stdout)
        except ET.ParseError as error:
            raise NoGpu(f"nvidia-smi -q -x prints XML that cannot be read: {error}") from None
        return done.stdout

    @cached_property
    def torch(self) -> dict[str, Any]:
        """Return what torch says of itself and of its GPUs, {"error": words} where it cannot be used.

        It is asked once for all cases: to import it takes long.
        """
        kept = self.scratch.parent / TORCH
        if kept.exists():
            known: dict[str, Any] = json.loads(kept.read_text())
            return known
        found = self._ask_torch()
        (self.scratch / TORCH).write_text(json.dumps(found))
        return found

    def _ask_torch(self) -> dict[str, Any]:
        try:
            done = self.run((sys.executable, str(SCRIPTS / "about_torch.py")), TORCH_S)
        except subprocess.TimeoutExpired:
            return {"error": f"torch has not found its GPUs within {TORCH_S:.0f} s"}
        lines = done.stdout.splitlines()
        if done.returncode or not lines:
            return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
        try:
            found: dict[str, Any] = json.loads(lines[-1])
        except ValueError:
            return {"error": f"about_torch.py printed {lines[-1][:200]!r}"}
        return found

    def need_torch(self) -> dict[str, Any]:
        """Return `torch`. Raises CannotRun where it has no GPU."""
        if self.torch.get("error"):
            raise CannotRun(f"torch cannot be used: {self.torch['error']}")
        if not self.torch["available"]:
            raise CannotRun(f"torch {self.torch['version']} (CUDA {self.torch['cuda']}) sees no GPU")
        return self.torch

    def need_modules(self, *names: str) -> None:
        """Raise CannotRun where this Python cannot find one of the modules."""
        code = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
        done = self.run((sys.executable, "-c", code, *names))
        if done.stdout.strip():
            raise CannotRun(f"{sys.executable} has no {', '.join(done.stdout.split())}")


def environment(scratch: Path, token: str) -> dict[str, str]:
    """Return the environment of the cases: this one without what launchers left in it, plus our mark.

    PYTHONPATH stays, behind this checkout: it may hold packages that the machine's Python lacks.
    """
    plain = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {
        **plain,
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": ":".join(paths),
        "XDG_STATE_HOME": str(scratch / "state"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        MARK: token,
    }


def simulated_environment(profile: str, scratch: Path) -> dict[str, str]:
    """Return what has to be added for a simulated board: NVML, nvidia-smi, and torch with GPUs on the CPU."""
    from tests.lab.silicon.ask import environment as silicon  # noqa: PLC0415 - needs a C compiler; tests only
    from tests.lab.silicon.profile import load_profile  # noqa: PLC0415
    from tests.lab.silicon.state import stage  # noqa: PLC0415
    from tests.users import own_gpus  # noqa: PLC0415

    gpus = own_gpus(load_profile(profile), scratch)
    found = silicon(stage(gpus, scratch / "silicon"))
    return {
        "SILICON_STATE": found["SILICON_STATE"],
        "LD_LIBRARY_PATH": found["LD_LIBRARY_PATH"],
        "PATH": f"{Path(sys.executable).parent}:{found['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'shims'}",
        "SHIMS": "simulated_gpus",
        "OMP_NUM_THREADS": "1",
    }
