"""How long the commands take that only print, beside the one import that all of them need.

    python -m bench.help_start [--rounds N]

Turn by turn, in processes of their own: `python -c "import click"`, and `python -m launcher.cli` with --help,
explain PROC001, run --help and preflight --help. What is compared is user and system time, the least of all
rounds, which a busy machine hardly changes. Targets: 1.2, 1.3, 1.5 and 1.5.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.common import Target, as_installed, cost_of_command, tell

BASE = "import click"
LIMITS = {"--help": 1.2, "explain PROC001": 1.3, "run --help": 1.5, "preflight --help": 1.5}


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        run = partial(cost_of_command, env=as_installed(Path(folder)))
        ways = {BASE: [sys.executable, "-c", BASE]}
        ways |= {words: [sys.executable, "-m", "launcher.cli", *words.split()] for words in LIMITS}
        for argv in ways.values():
            run(argv)  # bytecode
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(rounds):
            for words, argv in ways.items():
                least[words] = min(least[words], run(argv).cpu_s)
    print(f"least CPU of {rounds} rounds")
    for words, seconds in least.items():
        print(f"  {words:17} {1000 * seconds:7.1f} ms")
    return tell(
        [
            Target(f"{words} / {BASE}, CPU", least[words] / least[BASE], limit)
            for words, limit in LIMITS.items()
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
