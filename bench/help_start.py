"""How long `gpulaunch --help` takes, beside the one import that it needs.

    python -m bench.help_start [--rounds N]

Turn by turn, in processes of their own: `python -m launcher.cli --help` and `python -c "import click"`.
Target: at most 1.2x, in wall time and in CPU time.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.common import Cost, Target, as_installed, cost_of_command, side_by_side, tell

TARGET = 1.2


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        env = as_installed(Path(folder))
        ways: dict[str, Callable[[], Cost]] = {
            "import click": lambda: cost_of_command([sys.executable, "-c", "import click"], env=env),
            "--help": lambda: cost_of_command([sys.executable, "-m", "launcher.cli", "--help"], env=env),
        }
        for way in ways.values():
            way()  # bytecode
        costs = side_by_side(ways, rounds)
    print(f"median of {rounds} rounds")
    for name, cost in costs.items():
        print(f"  {name:15} {1000 * cost.wall_s:7.1f} ms   {1000 * cost.cpu_s:7.1f} ms CPU")
    ours, base = costs["--help"], costs["import click"]
    return tell(
        [
            Target("--help / import click, wall", ours.wall_s / base.wall_s, TARGET),
            Target("--help / import click, CPU", ours.cpu_s / base.cpu_s, TARGET),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
