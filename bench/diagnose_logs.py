"""Speed and memory of diagnose: long ordinary and hostile logs, beside `grep -c -F` for a handful of words.

    python -m bench.diagnose_logs               # logs of 50 MB
    python -m bench.diagnose_logs --megabytes 10

A log is generated to a file and read as `gpulaunch diagnose` reads it, each in a process of its own, whose
greatest memory is taken. Hostile are words that never repeat, failures' words that no pattern matches, and
lines that all match in unlike words.
"""

import argparse
import gc
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.common import ROOT, Target, tell

ORDINARY_MB_S, HOSTILE_MB_S, MOST_MIB = 50.0, 10.0, 200.0
_NEAR = ("CUDA out of memorx", "NCCL WARN Cuda failurx", "Address already in usx", "No space left on devicx")
_MATCH = (
    "CUDA out of memory",
    "RuntimeError: Address already in use",
    "Segmentation fault",
    "Connection reset by peer",
)
_WORDS = ("error", "Error", "failed", "memory", "NCCL")


def _trainer(source: random.Random, number: int) -> str:
    loss, norm = source.random() * 3, source.random()
    rest = f"'learning_rate': 1.5e-05, 'epoch': {number / 900:.2f}"
    return f"{{'loss': {loss:.4f}, 'grad_norm': {norm:.5f}, {rest}}}\n"


def _bars(source: random.Random, number: int) -> str:
    done, rate = number % 100, source.random() * 9
    bar = f"{done}%|{'█' * (done // 10):10}| {number}/99999"
    return f"\r {bar} [0:{done:02}<11:12, {rate:.2f}it/s, loss={rate:.3f}]"


def _ranks(source: random.Random, number: int) -> str:
    rank = number % 8
    return (
        f"[rank{rank}]: step {number} loss {source.random() * 4:.4f} lr 1.0e-04 tokens/s {number % 99999}\n"
        f"node{rank}:{number % 9999}:{number % 7777} [{rank}] NCCL INFO Channel 0/0 : {rank}[0] -> 3"
        f"[3] via P2P/CUMEM\n"
    )


def _prose(*starts: str) -> Callable[[random.Random, int], str]:
    def line(source: random.Random, _: int) -> str:
        start = source.choice(starts) + " " if starts else ""
        words = ("".join(source.choices("abcdefghijklmnopqrst", k=source.randint(3, 9))) for _ in range(11))
        return start + " ".join(words) + "\n"

    return line


def _raised(source: random.Random, number: int) -> str:
    kind = source.choice(("ValueError", "KeyError", "RuntimeError", "TypeError", "OSError"))
    head = f'Traceback (most recent call last):\n  File "train.py", line {number}, in step\n'
    return f"{head}    x = f()\n{_prose(f'{kind}:')(source, number)}"


ORDINARY = {"a trainer's steps": _trainer, "progress bars": _bars, "ranks and NCCL": _ranks}
HOSTILE = {
    "unlike words": _prose(),
    "near misses": _prose(*_NEAR),
    "unlike failures": _prose(*_MATCH),
    "unlike exceptions": _raised,
}


def main() -> int:
    """Measure and print; return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(*_read(given.read))
        return 0
    targets = []
    with tempfile.TemporaryDirectory() as folder:
        for goal, logs in ((ORDINARY_MB_S, ORDINARY), (HOSTILE_MB_S, HOSTILE)):
            for name, make in logs.items():
                path = Path(folder) / "train.log"
                path.write_text("".join(_lines(make, given.megabytes * 1_000_000)), encoding="utf-8")
                targets += _measured(name, path, goal)
    return tell(targets)


def _lines(make: Callable[[random.Random, int], str], size: int) -> Iterator[str]:
    source, written, number = random.Random(7), 0, 0
    while written < size:
        block = "".join(make(source, number + index) for index in range(200))
        yield block
        written, number = written + len(block.encode()), number + 200


def _measured(name: str, path: Path, goal: float) -> list[Target]:
    argv = (sys.executable, "-m", "bench.diagnose_logs", "--read", str(path))
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, memory_mib = map(float, done.stdout.split())
    megabytes = path.stat().st_size / 1e6
    beside = _grep(path)
    print(f"{name}: {megabytes / seconds:.0f} MB/s, {seconds / beside:.0f} times grep, {memory_mib:.0f} MiB")
    return [
        Target(f"{name}, MB/s of CPU", megabytes / seconds, goal, at_least=True),
        Target(f"{name}, MiB", memory_mib, MOST_MIB),
    ]


def _read(path: Path) -> tuple[float, float]:
    """Return the CPU seconds that a diagnosis takes, and the greatest memory of this process in MiB."""
    from launcher.rundir.log_files import read_logs  # noqa: PLC0415 - only this process's memory counts
    from preflight.diagnosis.diagnose import diagnose_logs  # noqa: PLC0415

    gc.set_threshold(50_000, 20, 20)  # as `launcher.cli` sets it
    started = time.process_time()
    diagnose_logs(read_logs((str(path),), path.parent))
    seconds = time.process_time() - started
    peak = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return seconds, int(peak.split()[1]) / 1024


def _grep(path: Path) -> float:
    """Return the CPU seconds of grep for a handful of words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [part for word in _WORDS for part in ("-e", word)]
    subprocess.run(("grep", "-c", "-F", *words, str(path)), capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return max(1e-3, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
