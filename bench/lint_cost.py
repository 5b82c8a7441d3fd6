"""How long lint takes for each 1,000 lines of training scripts.

    python -m bench.lint_cost [--rounds N]

The scripts are those of templates/ and tests/ with 60 lines or more, one after the other in this process,
imports done: what an editor that runs lint over a project waits for. Least CPU of all rounds. Target: 20 ms.
"""

import argparse
import sys
import time

from bench.common import ROOT, Target, tell
from preflight.script.analyze import analyze_script

LIMIT_MS = 20.0
SHORTEST = 60


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    paths = [*ROOT.glob("templates/**/*.py"), *ROOT.glob("tests/preflight/scripts/**/*.py")]
    every = [(path.read_text(encoding="utf-8"), path.name) for path in sorted(paths)]
    texts = [(text, name) for text, name in every if text.count("\n") >= SHORTEST]
    lines = sum(text.count("\n") for text, _ in texts)
    least = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for text, name in texts:
            analyze_script(text, name)
        least = min(least, time.process_time() - began)
    print(f"{len(texts)} scripts, {lines} lines: {1000 * least:.0f} ms of CPU")
    return tell([Target("lint of 1,000 lines, ms of CPU", 1e6 * least / lines, LIMIT_MS)])


if __name__ == "__main__":
    sys.exit(main())
