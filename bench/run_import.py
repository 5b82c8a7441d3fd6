"""What the modules of `gpulaunch run` cost to import, beside another checkout of gpulaunch.

    python -m bench.run_import OTHER [--rounds N]

OTHER is the folder of another checkout, such as `git worktree add OTHER COMMIT` makes. Turn by turn, in
processes of their own; what an interpreter needs to start is measured too and taken off. Target: at most as
much as OTHER.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.common import ROOT, Cost, Target, as_installed, cost_of_command, side_by_side, tell

TARGET = 1.0
IMPORTS = "import launcher.commands.run, launcher.commands._launch"


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:

        def way(root: Path, code: str) -> Callable[[], Cost]:
            argv = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {code}"]
            return lambda: cost_of_command(argv, env=as_installed(Path(folder)))

        ways = {
            "nothing": way(ROOT, "pass"),
            "this": way(ROOT, IMPORTS),
            "other": way(options.other.resolve(), IMPORTS),
        }
        for each in ways.values():
            each()  # bytecode
        costs = side_by_side(ways, options.rounds)
    print(f"median of {options.rounds} rounds")
    for name, cost in costs.items():
        print(f"  {name:15} {1000 * cost.wall_s:7.1f} ms   {1000 * cost.cpu_s:7.1f} ms CPU")
    base = costs["nothing"].cpu_s
    return tell(
        [Target("this / other, CPU", (costs["this"].cpu_s - base) / (costs["other"].cpu_s - base), TARGET)]
    )


if __name__ == "__main__":
    sys.exit(main())
