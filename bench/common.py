"""What the benchmarks share: CPU time of ourselves and of children, targets, and a table of ratios."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Cost:
    """What one measured piece of work took, in seconds. `cpu_s` is user + system, children included."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio that was promised: `measured` against `base`, at most (or at least) `limit`."""

    name: str
    ratio: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the ratio is on the promised side."""
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit


def cost_of_command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout_s: float = 300.0,
    ok: bool = True,
) -> Cost:
    """Run a command and return what it and all the children it waited for took."""
    before = _cpu(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(
        argv,
        env=dict(env or os.environ),
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        cwd=ROOT,
    )
    wall_s = time.monotonic() - started
    if ok and done.returncode != 0:
        sys.exit(f"{argv[0]} ended with {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-2000:]}")
    return Cost(_cpu(resource.RUSAGE_CHILDREN) - before, wall_s)


def as_installed(folder: Path | None = None) -> dict[str, str]:
    """Return an environment in which this checkout's modules are byte-compiled, as pip leaves installed ones.

    Otherwise, where PYTHONDONTWRITEBYTECODE is set, each start would compile ours and nobody else's. The
    first run of each way fills `folder` and is not to be measured. Without a folder it is kept beside the
    sources: torch and transformers, which pip has compiled, take a minute to compile anew.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    prefix = {} if folder is None else {"PYTHONPYCACHEPREFIX": str(folder)}
    return {**kept, "PYTHONPATH": str(ROOT), **prefix}


def median(costs: Sequence[Cost]) -> Cost:
    """Return the medians of repeated measurements."""
    return Cost(
        statistics.median(cost.cpu_s for cost in costs), statistics.median(cost.wall_s for cost in costs)
    )


def side_by_side(ways: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, Cost]:
    """Measure each way `rounds` times in turn, so that a busy moment of the machine hits all alike."""
    taken: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(way())
    return {name: median(costs) for name, costs in taken.items()}


def tell(targets: Sequence[Target]) -> int:
    """Print each target with its measurement; return the exit code: 0 when all are met, 1 otherwise."""
    for target in targets:
        sign = ">=" if target.at_least else "<="
        verdict = "ok" if target.met else "MISSED"
        digits = 2 if target.limit >= 0.1 else 4
        print(f"{verdict:6} {target.name}: {target.ratio:.{digits}f} (target {sign} {target.limit:g})")
    return 0 if all(target.met for target in targets) else 1


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
