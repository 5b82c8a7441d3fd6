"""gpulaunch as a user of this machine types it: a directory, a training, and what the run left."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tests.gpu.board import SCRIPTS, Board
from tests.gpu.ledger import Stopped
from tests.gpu.patience import Patience

COMMAND = (sys.executable, "-m", "launcher")
READY_S = 60.0
REST = "rest.json"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def document(self) -> dict[str, Any]:
        """Return the JSON that it printed. Raises Stopped with its last words where it printed none."""
        try:
            found: dict[str, Any] = json.loads(self.out)
        except ValueError:
            raise Stopped(f"no JSON, exit code {self.code}: {self.last_words}") from None
        return found

    @property
    def last_words(self) -> str:
        return " ".join((self.err.strip() or self.out.strip()).splitlines()[-3:])


def _from_start(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


class Launch:
    """One directory with train.py and job.yaml in it, and the runs that are started from it."""

    def __init__(self, board: Board, name: str = "job") -> None:
        self.board = board
        self.home = board.scratch / name
        self.home.mkdir()
        shutil.copy(SCRIPTS / "train.py", self.home / "train.py")
        self.started: subprocess.Popen[str] | None = None

    def configure(self, args: Sequence[str] = (), **keys: Any) -> None:
        """Write job.yaml: JSON is YAML."""
        plain = {"script": "train.py", "send_script": True, "hosts": ["localhost"], "gpus": 1}
        text = json.dumps({**plain, "args": list(args), **keys})
        (self.home / "job.yaml").write_text(text)

    def command(
        self,
        *words: str,
        limit_s: float = 80.0,
        within: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command of gpulaunch, the end of the command `within`. Raises Stopped if it does not end."""
        start = time.monotonic()
        with (self.home / ".out").open("w+b") as out, (self.home / ".err").open("w+b") as err:
            child = subprocess.Popen(
                [*within, *COMMAND, *words],
                cwd=self.home,
                env={**self.board.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
            code = Patience(limit_s).wait(child)
            if code is None:
                child.kill()
                child.wait()
                seconds = time.monotonic() - start
                raise Stopped(f"gpulaunch {' '.join(words)} did not end within {seconds:.0f} s")
            said, errors = (_from_start(file) for file in (out, err))
        return Ended(code, said, errors, time.monotonic() - start)

    def run(self, *words: str, limit_s: float = 80.0) -> Ended:
        """Run job.yaml to its end."""
        return self.command(*self._run_words(*words), limit_s=limit_s)

    def start(self, *words: str) -> dict[str, Any]:
        """Start job.yaml; return what rank 0 says of itself once it computes. Raises Stopped."""
        errors = (self.home / "client.log").open("w")
        self.started = subprocess.Popen(
            [*COMMAND, *self._run_words(*words)],
            cwd=self.home,
            env=dict(self.board.env),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        errors.close()
        return self.ready(0)

    def ready(self, rank: int) -> dict[str, Any]:
        """Return what a rank wrote of itself. Raises Stopped where it does not come so far."""
        path = self.home / f"ready-{rank}.json"
        patience = Patience(READY_S)
        while not path.exists():
            if patience.is_over() or (self.started is not None and self.started.poll() is not None):
                raise Stopped(f"rank {rank} does not train: {self.client_log()[-400:]}")
            time.sleep(0.05)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def wait(self, limit_s: float) -> int:
        """Return the client's exit code. Raises Stopped where it does not end."""
        assert self.started is not None
        code = Patience(limit_s).wait(self.started)
        if code is None:
            raise Stopped(f"gpulaunch run has not ended after {limit_s:.0f} s")
        return code

    def client_log(self) -> str:
        path = self.home / "client.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _run_words(self, *words: str) -> list[str]:
        return ["run", "-c", "job.yaml", *self.ignored(), *words]

    def ignored(self) -> list[str]:
        """Return the option that ignores what stops launches on this machine at rest (the case `rest`)."""
        codes = json.loads(self._rest.read_text()) if self._rest.exists() else []
        codes += ["ENV003"] if self.board.simulated else []  # its torch is the CPU's
        return ["--ignore", ",".join(codes)] if codes else []

    @property
    def _rest(self) -> Path:
        return self.board.scratch.parent / REST

    def ignore_from_now_on(self, codes: Sequence[str]) -> None:
        """Have the runs of all cases that follow ignore these findings."""
        self._rest.write_text(json.dumps(list(codes)))

    # --- what the newest run left locally ---

    def directory(self) -> Path:
        """Return gpulaunch-runs/RUN. Raises Stopped where there is none."""
        runs = sorted(
            (self.home / "gpulaunch-runs").glob("*/plan.json"), key=lambda each: each.stat().st_mtime_ns
        )
        if not runs:
            raise Stopped(f"no run was started: {self.client_log()[-400:]}")
        return runs[-1].parent

    def outcome(self) -> dict[str, Any]:
        """Return outcome.json, {} where the run left none."""
        path = self.directory() / "outcome.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def plan(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory() / "plan.json").read_text())
        return found

    def log(self, rank: int = 0) -> str:
        """Return what a rank printed, "" where it has no log."""
        found = sorted(self.directory().rglob(f"rank-{rank}.log"))
        return found[0].read_text(errors="replace") if found else ""
