"""One guarded rank as a real process: rank.py and guard.py in a run directory, a script beside them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.remote.program_source import read_program_source

SHIMS = Path(__file__).parents[1] / "shims"
STOPPED = 86
LIGHT = "no_compiler no_dtensor quick_end"
"""What a rank leaves out that compiles and shards nothing, and whose end is not what a test is about."""


@dataclass(frozen=True)
class Ended:
    """How a rank ended, what it printed and told."""

    code: int
    log: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def reported(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    @property
    def stop(self) -> dict[str, Any]:
        """The one event with which the guard stopped the rank."""
        stops = [each for each in self.reported("guard") if each["stops"]]
        assert len(stops) == 1, (self.code, self.events, self.log[-3000:])
        assert self.code == STOPPED
        return stops[0]


def run_rank(root: Path, script: str, *args: str, shim: str = "", **env: str) -> Ended:
    """Run `script` as rank 0; env says what the guard is to do; `shim` names one of tests/shims."""
    run_dir, work = root / "run", root / "work"
    run_dir.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    for name in ("rank", "guard"):
        (run_dir / f"{name}.py").write_bytes(read_program_source(name))
    (run_dir / "events.jsonl").write_text("")
    (run_dir / "rank-0.log").unlink(missing_ok=True)
    (work / "train.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(run_dir / "rank.py"), "train.py", *args],
        cwd=work,
        env={**_plain_environment(), **shimmed(shim), **env},
        capture_output=True,
        timeout=120,
        check=False,
    )
    log = (run_dir / "rank-0.log").read_text() if (run_dir / "rank-0.log").exists() else ""
    lines = (run_dir / "events.jsonl").read_text().splitlines()
    return Ended(done.returncode, log + done.stderr.decode(), [json.loads(line) for line in lines])


def shimmed(shim: str, **more: str) -> dict[str, str]:
    """Return the environment that turns on a shim of tests/shims."""
    if not shim:
        return {}
    # In the home of this session of pytest, which its processes share: see tests/shims/known_models.py.
    models = {"SHIM_MODELS": f"{os.environ['HOME']}/models"} if "known_models" in shim else {}
    return {"PYTHONPATH": str(SHIMS), "SHIMS": shim, **models, **more}


def _plain_environment() -> dict[str, str]:
    ours = ("GPULAUNCH_", "ACCELERATE_", "RANK", "WORLD_SIZE", "LOCAL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
