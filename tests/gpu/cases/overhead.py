"""What gpulaunch costs a training: its steps alone, and in a run with and without guard."""

import json
import statistics
import sys
from pathlib import Path

from tests.gpu.board import SCRIPTS, Board
from tests.gpu.launches import Launch
from tests.gpu.ledger import Ledger, Stopped

WARM = 50
LARGE = "--steps 400 --width 4096 --batch 2048"  # steps of 10 to 100 ms: 17 on an H200
SMALL = "--steps 100"
MOST_PERCENT = 5.0


def compare_steps(board: Board, ledger: Ledger) -> None:
    """Medians of the steps, alone and in a run: supervisor and gauge beside it, guard in it."""
    board.need_torch()
    sizes = SMALL if board.simulated else LARGE
    words = ["--times", *sizes.split()]
    alone = _alone(board, words)
    ledger.note("python train.py, ms per step", alone)
    for name, guard in (("run without guard", "off"), ("run with guard", "stop")):
        place = Launch(board, f"job-{guard}")
        place.configure(words, guard=guard)
        ended = place.run(limit_s=80)
        if ended.code:
            raise Stopped(f"{name}: exit code {ended.code}: {ended.last_words}")
        found = _mean(place.home / "times-0.json")
        ledger.note(f"{name}, ms per step", found)
        percent = 100 * (found / alone - 1)
        if board.simulated:
            ledger.unable(f"{name}: overhead", "the board is simulated")
        else:
            ledger.check(
                f"{name}: overhead in percent",
                percent,
                ok=percent <= MOST_PERCENT,
                expected=f"at most {MOST_PERCENT}",
            )
        phases = {phase["name"]: phase["seconds"] for phase in place.outcome()["phases"]}
        ledger.note(f"{name}: seconds of preflight, start, run, end", phases)


def _alone(board: Board, words: list[str]) -> float:
    place = board.scratch / "alone"
    place.mkdir()
    argv = ("env", "-C", str(place), sys.executable, str(SCRIPTS / "train.py"), *words)
    done = board.run(argv, 80, OMP_NUM_THREADS="1")
    if done.returncode:
        raise Stopped(f"train.py alone: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return _mean(place / "times-0.json")


def _mean(path: Path) -> float:
    """Return the mean step: most return before the GPU has computed them, and every tenth waits for it."""
    return 1000 * float(statistics.fmean(json.loads(path.read_text())[WARM:]))
