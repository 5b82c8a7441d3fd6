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
LIGHT = "no_compiler no_dtensor no_extras quick_end"
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
    rank = Rank(root)
    rank.write(script)
    done = subprocess.run(
        [sys.executable, str(rank.program), "train.py", *args],
        cwd=rank.work,
        env={**_plain_environment(), **shimmed(shim), **env},
        capture_output=True,
        timeout=120,
        check=False,
    )
    return rank.read(done.returncode, done.stderr.decode())


@dataclass(frozen=True)
class Rank:
    """The files of one rank: what it runs, and what it leaves."""

    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def program(self) -> Path:
        return self.root / "run" / "rank.py"

    def write(self, script: str) -> None:
        """Write rank.py, guard.py and the script."""
        run_dir = self.program.parent
        run_dir.mkdir(exist_ok=True)
        self.work.mkdir(exist_ok=True)
        for name in ("rank", "guard"):
            (run_dir / f"{name}.py").write_bytes(read_program_source(name))
        (run_dir / "events.jsonl").write_text("")
        (run_dir / "rank-0.log").unlink(missing_ok=True)
        (self.work / "train.py").write_text(script)

    def read(self, code: int, errors: str) -> Ended:
        """Return what an ended rank has left."""
        log = self.program.with_name("rank-0.log")
        lines = self.program.with_name("events.jsonl").read_text().splitlines()
        printed = log.read_text() if log.exists() else ""
        return Ended(code, printed + errors, [json.loads(line) for line in lines])


class ForkServer:
    """A process that has imported torch, accelerate, transformers and peft, and forks ranks that run rank.py.

    Four fifths of the CPU of a rank that takes a few steps are these imports. rank.py finds torch imported,
    as where a .pth file of an environment imports it. test_end_to_end.py starts ranks as gpulaunch does.
    """

    SHIMS = f"{LIGHT} known_models"
    PROGRAM = """
import gc, json, os, sys
from importlib.machinery import SourceFileLoader
import accelerate.accelerator, peft, torch, transformers.trainer
import cpu_scaler, pretended_gpus
shims = {"cpu_scaler": (cpu_scaler, accelerate.accelerator), "pretended_gpus": (pretended_gpus, torch)}
gc.freeze()
for line in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    os._exit(0)
rank = json.loads(line)
for number, path in enumerate((os.devnull, rank["errors"], rank["errors"])):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
os.chdir(rank["work"])
os.environ.clear()
os.environ.update(rank["env"])
for name in rank["shims"]:
    shim, module = shims[name]
    shim.turn_on(module)
sys.argv = [rank["program"], "train.py", *rank["args"]]
sys.path[0] = os.path.dirname(rank["program"])
__file__ = rank["program"]
__loader__ = SourceFileLoader("__main__", __file__)
exec(__loader__.get_code("__main__"))
"""

    def __init__(self) -> None:
        env = {**_plain_environment(), **shimmed(self.SHIMS)}
        pipe = subprocess.PIPE
        words = (sys.executable, "-c", self.PROGRAM)
        self.process = subprocess.Popen(words, env=env, text=True, stdin=pipe, stdout=pipe)

    def run_rank(self, root: Path, script: str, *args: str, shim: str = "", **env: str) -> Ended:
        """Run `script` as rank 0, beside SHIMS; `shim` names others of tests/shims."""
        rank = Rank(root)
        rank.write(script)
        errors = root / "errors"
        what = {"program": str(rank.program), "work": str(rank.work), "errors": str(errors)}
        how = {
            "args": args,
            "shims": list({*shim.split()} - {*self.SHIMS.split()}),
            "env": {**_plain_environment(), **env},
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({**what, **how}) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return rank.read(code, errors.read_text())

    def end(self) -> None:
        self.process.communicate()


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
