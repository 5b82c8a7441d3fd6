"""How long lint takes for each 1,000 lines of training scripts.

    python -m bench.lint_cost [--rounds N]

Lint reads scripts as `gpulaunch lint` does, with their own modules, one after the other in this process:
what an editor that lints a project waits for. One round goes before the measured ones, so that imports and
what is made at first use are done. Least CPU of all rounds. Target: 20 ms.

Two sets: the scripts of templates/ and tests/, of 17 lines in the mean, nearly each of which calls torch, and
those that are installed with accelerate (accelerate/test_utils/scripts), which are as long as any project's.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from bench.common import ROOT, Target, tell
from launcher.local.source_files import read_source
from preflight.script.lint import lint

LIMIT_MS = 20.0


def find_scripts() -> dict[str, list[Path]]:
    """Return the scripts of each set by its name; none of accelerate's where that is not installed."""
    found = find_spec("accelerate")
    folders = (found.submodule_search_locations if found else None) or ()
    ours = [*ROOT.glob("templates/**/*.py"), *ROOT.glob("tests/preflight/scripts/**/*.py")]
    theirs = [path for folder in folders for path in Path(folder, "test_utils", "scripts").rglob("*.py")]
    return {"short, dense scripts": sorted(ours), "scripts of ordinary length": sorted(theirs)}


def measure(paths: Sequence[Path], rounds: int) -> tuple[int, float]:
    """Return the lines of these scripts, and the seconds of CPU that lint takes for all of them."""
    texts = [(path.read_text(encoding="utf-8"), str(path)) for path in paths]
    least = float("inf")
    for number in range(rounds + 1):
        began = time.process_time()
        for text, name in texts:
            lint(text, name, find=read_source)
        if number:
            least = min(least, time.process_time() - began)
    return sum(text.count("\n") for text, _ in texts), least


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    targets = []
    for name, paths in find_scripts().items():
        if not paths:
            print(f"no {name}: accelerate is not installed")
            continue
        lines, least = measure(paths, rounds)
        print(f"{len(paths)} {name}, {lines} lines: {1000 * least:.0f} ms of CPU")
        targets.append(Target(f"lint of 1,000 lines of {name}, ms of CPU", 1e6 * least / lines, LIMIT_MS))
    return tell(targets)


if __name__ == "__main__":
    sys.exit(main())
