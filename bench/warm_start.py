"""What the warm start of local ranks saves: `gpulaunch run` to its script's first line, with and without it.

    python -m bench.warm_start [--rounds N]

Turn by turn, a script that only writes the time down, on one rank of this machine. "without" is the same
command in which no node begins before its plan, as on every host that is reached by SSH. Target: at most 0.9,
for less would not be worth 420 lines.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench.common import Target, tell
from bench.run_start import NOTHING, Case, Way, ours, until_mark

WITHOUT = """
import sys
import launcher.commands.run as run
from launcher.cli import main
run.warm_start_local = lambda what: None
sys.argv[0] = "gpulaunch"
sys.exit(main())
"""


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        script = place / "nothing.py"
        script.write_text(NOTHING.format(mark=str(place / "mark")))
        way = ours(Case("does nothing", 1, script, (), until_mark), place)
        bare = Way((sys.executable, "-c", WITHOUT, *way.argv[3:]), way.env)
        for turn in range(rounds + 1):
            for name, each in (("with", way), ("without", bare))[:: 1 if turn % 2 else -1]:
                seconds = until_mark(each, place)
                if turn:  # the first ones compile
                    times[name].append(seconds)
    pairs = zip(times["with"], times["without"], strict=True)
    ratio = statistics.median(mine / other for mine, other in pairs)
    print("  ".join(f"{name} {statistics.median(values):.2f} s" for name, values in times.items()))
    return tell([Target("with / without the warm start, wall", ratio, 0.9)])


if __name__ == "__main__":
    sys.exit(main())
