"""CPU time of showing a long log to that of `sed`, which puts the same words in front of each line.

    python -m bench.log_output [--megabytes 50]

The log is what `gpulaunch logs RUN > FILE` gets of one rank, in pieces of 256 KiB: ordinary lines, lines with
the colours of a script, lines beyond ASCII, and bars. sed neither leaves out colours nor makes anything safe.
Target: twice sed's CPU time at most for ordinary lines, and 12 s for a gigabyte of the others.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import Target, cost_of_command, tell
from launcher.terminal.screen import Screen

_PIECE = 256 << 10
_ROUNDS = 3
_LIMIT = 2.0
_MOST_S_PER_GB = 12.0
_ORDINARY = "ordinary lines"
KINDS = {
    _ORDINARY: "step %d loss 1.2345 grad_norm 0.567 lr 1e-4 tokens/s 8123 mem 12.3GiB epoch 0.12\n",
    "coloured lines": "\x1b[32mINFO\x1b[0m step %d loss 1.2345 grad_norm 0.567 lr 1e-4 tokens/s 8123\n",
    "lines beyond ASCII": "step %d \u2713 l\u00e4uft loss 1.2345 grad_norm 0.567 tokens/s 8123 \u00b5\n",
    "bars": "\r step %d: 45%%|####      | 450/1000 [00:10<00:12, 44.9it/s]",
}


def show(log: bytes, target: Path) -> float:
    """Return the CPU time of showing a log into a file."""
    with target.open("w") as file:
        screen = Screen(file)
        before = time.process_time()
        for at in range(0, len(log), _PIECE):
            screen.output("localhost", "rank-0.log", log[at : at + _PIECE], 0.0)
        screen.finish()
        return time.process_time() - before


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=50)
    size = parser.parse_args().megabytes * 1_000_000
    targets = []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "log"), Path(folder, "shown")
        for kind, line in KINDS.items():
            some = "".join(line % number for number in range(20_000)).encode()
            log = some * (size // len(some) + 1)
            source.write_bytes(log)
            ours = other = float("inf")
            for _ in range(_ROUNDS):
                ours = min(ours, show(log, target))
                sed = f"sed 's/^/[localhost r0] /' {source} > {Path(folder, 'sed')}"
                other = min(other, cost_of_command(["sh", "-c", f"LC_ALL=C {sed}"]).cpu_s)
            gigabytes = len(log) / 1e9
            print(f"{kind:20} {ours / gigabytes:6.1f} s for a gigabyte, sed {other / gigabytes:6.1f} s")
            if kind == _ORDINARY:
                subprocess.run(["cmp", str(target), str(Path(folder, "sed"))], check=True)
                targets.append(Target(f"showing {kind} / sed: CPU", ours / other, _LIMIT))
            else:
                name = f"showing {kind}: CPU seconds for a gigabyte"
                targets.append(Target(name, ours / gigabytes, _MOST_S_PER_GB))
    return tell(targets)


if __name__ == "__main__":
    sys.exit(main())
