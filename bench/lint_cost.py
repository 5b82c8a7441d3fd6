"""How long lint takes for each 1,000 lines of training scripts.

    python -m bench.lint_cost [--rounds N]

Lint reads the scripts of templates/ and tests/ as `gpulaunch lint` does, with their own modules, one after
the other in this process: what an editor that lints a project waits for. One round goes before the measured
ones, so that imports and what is made at first use are done. Least CPU of all rounds. Target: 20 ms.
"""

import argparse
import sys
import time

from bench.common import ROOT, Target, tell
from launcher.local.source_files import read_source
from preflight.script.lint import lint

LIMIT_MS = 20.0


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    paths = sorted([*ROOT.glob("templates/**/*.py"), *ROOT.glob("tests/preflight/scripts/**/*.py")])
    texts = [(path.read_text(encoding="utf-8"), str(path)) for path in paths]
    lines = sum(text.count("\n") for text, _ in texts)
    least = float("inf")
    for number in range(rounds + 1):
        began = time.process_time()
        for text, name in texts:
            lint(text, name, find=read_source)
        if number:
            least = min(least, time.process_time() - began)
    print(f"{len(texts)} scripts, {lines} lines: {1000 * least:.0f} ms of CPU")
    return tell([Target("lint of 1,000 lines, ms of CPU", 1e6 * least / lines, LIMIT_MS)])


if __name__ == "__main__":
    sys.exit(main())
