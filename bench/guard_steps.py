"""What the guard adds to steps of 0.5, 1, 10 and 100 ms, on one CPU core.

    python -m bench.guard_steps [--seconds 6] [--sizes 0.5 1 10 100]

One training process for each size: a model and a batch that take about so long. What is counted is the CPU
time inside the guard's hooks, cold caches and all, in per cent of what the rest of a step takes. The guard's
budget at the start of a run is used up before. Targets: 2, 1, 0.5 and 0.2 %.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.common import ROOT, Target, tell
from bench.guard_overhead import load_guard

_TARGETS = {0.5: 2.0, 1.0: 1.0, 10.0: 0.5, 100.0: 0.2}
_WARM_S = 2.0


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each size, after the warm-up")
    parser.add_argument(
        "--sizes", type=float, nargs="+", default=list(_TARGETS), help="milliseconds per step"
    )
    parser.add_argument("--child", type=float, default=0.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_train(arguments.child, arguments.seconds)))
        return 0
    targets = []
    for size in arguments.sizes:
        argv = [
            sys.executable,
            "-m",
            "bench.guard_steps",
            "--child",
            str(size),
            "--seconds",
            str(arguments.seconds),
        ]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        print(
            f"  {size:g} ms: a step took {found['step_ms']:.3f} ms, the guard {found['added_us']:.1f} us, "
            f"{found['looks_us']:.1f} of them in the steps that it looks at"
        )
        targets.append(
            Target(f"per cent of a step of {size:g} ms", found["percent"], _TARGETS.get(size, 2.0))
        )
    return tell(targets)


def _train(size_ms: float, seconds: float) -> dict[str, float]:
    """Train with the guard on and off in turns; return what it added."""
    with tempfile.TemporaryDirectory() as folder:
        module = load_guard(Path(folder))
        tools = module.RankServices(lambda *_, **__: None, lambda _: None, lambda _: "")
        guard = module.Guard(module.GuardContext(0, 0, folder), tools, stops=False)
        import torch  # noqa: PLC0415 - after the guard, as in a rank

        torch.set_num_threads(1)
        guard.install(torch)
        step = _stepper(torch, size_ms)
        meter = _Meter(guard, step)
        _spend(guard)
        until = time.monotonic() + _WARM_S
        while time.monotonic() < until:
            step()
        meter.reset()
        began, steps = time.thread_time(), 0
        until = time.monotonic() + seconds
        while time.monotonic() < until or steps < 10:
            step()
            steps += 1
        total = time.thread_time() - began
        quiet_s, looks_s = (meter.inside_s(quiet=quiet) for quiet in (True, False))
        inside_s = quiet_s + looks_s
        return {
            "step_ms": 1000 * (total - inside_s) / steps,
            "added_us": 1e6 * inside_s / steps,
            "looks_us": 1e6 * looks_s / steps,
            "percent": 100 * inside_s / (total - inside_s),
        }


def _spend(guard: Any) -> None:
    """Use up what the guard may take at the start of a run."""
    budgets = [
        each
        for seen in guard.training.optimizers.values()
        for each in (seen.values_budget, seen.dtypes_budget)
    ]
    for each in (guard.evidence, *budgets):
        each._spent_s += 0.2  # noqa: SLF001


class _Meter:
    """CPU time inside a guard: in its hooks, with what hides them from a compiler, and in what they call.

    What the clock takes, a system call with cold caches, is measured in hooks that do nothing and left out.
    """

    def __init__(self, guard: Any, step: Callable[[], None]) -> None:
        self._evidence = guard.evidence
        self._inside = False
        self.reset()
        optim = sys.modules["torch.optim.optimizer"]
        hooks = (optim._global_optimizer_pre_hooks, optim._global_optimizer_post_hooks)  # noqa: SLF001
        real = [dict(each) for each in hooks]
        for each in hooks:
            each.update(dict.fromkeys(each, self._timed(lambda *_: None)))
        for _ in range(200):
            step()
        self._clock_s = statistics.median(self._taken[True] + self._taken[False])
        for each, functions in zip(hooks, real, strict=True):
            each.update({key: self._timed(function) for key, function in functions.items()})
        guard.safety.call = self._timed(guard.safety.call)

    def reset(self) -> None:
        """Forget what was measured."""
        self._taken: dict[bool, list[float]] = {True: [], False: []}

    def inside_s(self, *, quiet: bool) -> float:
        """Return the time inside the guard, in quiet steps or in those that it looks at."""
        return sum(self._taken[quiet]) - len(self._taken[quiet]) * self._clock_s

    def _timed(self, function: Any) -> Any:
        def timed(*args: Any) -> Any:
            if self._inside:
                return function(*args)
            quiet, self._inside = self._evidence.quiet, True
            began = time.thread_time()
            try:
                return function(*args)
            finally:
                self._taken[quiet].append(time.thread_time() - began)
                self._inside = False

        return timed


def _stepper(torch: Any, size_ms: float) -> Any:
    """Return a function that takes one step of about so many milliseconds."""
    width = 256
    torch.manual_seed(0)
    layers = [torch.nn.Linear(width, width) for _ in range(2 if size_ms < 5 else 16)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    rows = 1

    def take_step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    while True:
        batch = torch.randn(rows, width)
        for _ in range(3):
            take_step()
        began = time.thread_time()
        for _ in range(5):
            take_step()
        took_ms = 1000 * (time.thread_time() - began) / 5
        if took_ms >= 0.85 * size_ms:
            return take_step
        rows = max(rows + 1, int(rows * min(4.0, size_ms / max(took_ms, 0.1))))


if __name__ == "__main__":
    sys.exit(main())
