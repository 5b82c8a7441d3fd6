"""A whole preflight of one host beside the least that asks it anything over SSH.

    python -m bench.preflight_one_host [--rounds N]

Turn by turn over a plain sshd on loopback: `ssh host python3 -c "import psutil"`, and `gpulaunch preflight
host`, which starts, connects, sends its agent, reads all facts and judges them. The median of the ratios
within a round. Target: 1.0 in wall time.
"""

import argparse
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.common import Target, as_installed, cost_of_command, tell
from bench.loopback import Loopback

LIMIT = 1.0


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, Loopback.up(Path(folder), 1) as loopback:
        run = partial(cost_of_command, env={**as_installed(Path(folder) / "cache"), "HOME": folder}, ok=False)
        config, (name,) = str(loopback.ssh_config), loopback.names
        inventory = Path(folder) / "one.yaml"
        inventory.write_text(f"hosts:\n  {name}: {{python: {sys.executable}}}\n")
        (Path(folder) / ".ssh").mkdir(exist_ok=True)
        (Path(folder) / ".ssh/config").write_text(loopback.ssh_config.read_text())
        theirs = ["ssh", "-F", config, name, sys.executable, "-c", "'import psutil'"]
        ours = [sys.executable, "-m", "launcher.cli", "preflight", "-i", str(inventory), name]
        run(theirs), run(ours)
        ratios, walls = [], []
        for _ in range(rounds):
            base, mine = run(theirs), run(ours)
            ratios.append(mine.wall_s / base.wall_s)
            walls.append((base.wall_s, mine.wall_s))
    base_s, mine_s = (statistics.median(each) for each in zip(*walls, strict=True))
    print(f"ssh {1000 * base_s:.0f} ms, preflight {1000 * mine_s:.0f} ms (medians of {rounds} rounds)")
    return tell([Target("preflight of one host / ssh import psutil, wall", statistics.median(ratios), LIMIT)])


if __name__ == "__main__":
    sys.exit(main())
