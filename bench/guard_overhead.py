"""What the guard costs on the CPU, on a step of templates/paper_r64.py.

    python -m bench.guard_overhead [--steps 200]

Two answers, both in CPU time, so that a busy machine changes little. *Inside*: what is spent in the guard's
own code per step, from a guard whose every entry is timed. *Side by side*: the same training with the guard
switched on and off in turns, medians of the steps. Torch takes one thread: two that share a busy core spin
while they wait for each other, which took twelve times the CPU of a step and hid the guard in it.
"""

import argparse
import importlib.util
import json
import os
import runpy
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from launcher.remote.program_source import read_program_source

ROOT = Path(__file__).resolve().parents[1]
WARM_STEPS = 5


def load_guard(folder: Path) -> Any:
    """Load the guard as rank.py does, from the text that lies in the run directory."""
    path = folder / "guard.py"
    path.write_bytes(read_program_source("guard"))
    spec = importlib.util.spec_from_file_location("_gpulaunch_guard", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_gpulaunch_guard"] = module
    spec.loader.exec_module(module)
    return module


class Meter:
    """Times a guard from outside: its entries, all through its SafeCaller, and the steps it watches."""

    def __init__(self, guard: Any) -> None:
        self.guard = guard
        self.inside = 0.0
        self.depth = 0
        self.per_step: list[tuple[bool, float, float]] = []  # guard on, whole step, inside the guard
        self.began = time.process_time()
        self.on = True
        for name in ("call", "is_active"):
            self._time(name)

    def _time(self, name: str) -> None:
        original = getattr(self.guard.safety, name)

        def timed(*args: Any) -> Any:
            if name == "is_active" and not self.on:
                return False
            self.depth += 1
            start = time.process_time()
            try:
                return original(*args)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.inside += time.process_time() - start

        setattr(self.guard.safety, name, timed)

    def stepped(self) -> None:
        now = time.process_time()
        self.per_step.append((self.on, now - self.began, self.inside))
        self.began, self.inside = time.process_time(), 0.0


def train(meter: Meter, steps: int, switch_every: int) -> None:
    import torch  # noqa: PLC0415 - the guard must be there first, as in a rank

    meter.guard.install(torch)
    count = 0

    def after(*_: Any) -> None:
        nonlocal count
        count += 1
        meter.stepped()
        meter.on = count <= WARM_STEPS or (count // switch_every) % 2 == 0

    torch.optim.optimizer = sys.modules["torch.optim.optimizer"]
    sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(after)
    script = str(ROOT / "templates/paper_r64.py")
    with tempfile.TemporaryDirectory() as output:
        sys.argv = [script, "--max-steps", str(steps), "--output", output]
        runpy.run_path(script, run_name="__main__")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--switch-every", type=int, default=1, help="steps with, then without the guard")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is imported
    reports: list[Any] = []
    with tempfile.TemporaryDirectory() as run_dir:
        module = load_guard(Path(run_dir))
        note = lambda *event, **fields: reports.append((event, fields))  # noqa: E731
        tools = module.RankServices(note, lambda _: None, lambda _: "")
        meter = Meter(module.Guard(module.GuardContext(0, 0, run_dir), tools, stops=True))
        train(meter, options.steps, options.switch_every)
    counted = meter.per_step[WARM_STEPS:]
    on = [whole for guarded, whole, _ in counted if guarded]
    off = [whole for guarded, whole, _ in counted if not guarded]
    inside = [spent for guarded, _, spent in counted if guarded]
    sampled = max(inside)
    result = {
        "steps": len(counted),
        "step_ms": round(1000 * statistics.median(off), 3),
        "inside_ms_median": round(1000 * statistics.median(inside), 4),
        "inside_ms_mean": round(1000 * statistics.mean(inside), 4),
        "inside_ms_worst_step": round(1000 * sampled, 3),
        "inside_percent": round(100 * statistics.mean(inside) / statistics.mean(off), 3),
        "side_by_side_percent": round(100 * (statistics.median(on) / statistics.median(off) - 1), 2),
        "internal_error": [fields for event, fields in reports if "internal_error" in event],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
