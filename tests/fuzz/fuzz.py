"""Runs doors in processes of their own, and keeps what they fail on.

python -m tests.fuzz.fuzz [--seconds 600] [--seed N] [--jobs 2] [DOOR...]
python -m tests.fuzz.fuzz --input FILE [--door DOOR]
"""

import argparse
import hashlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.targets import DOORS
from tests.fuzz.worker import CPU_LIMIT_S, MEMORY_LIMIT, SHARED_SIZE

ROOT = Path(__file__).parents[2]
FAILURES = Path("fuzz-failures")
_WAIT_S = 120.0
"""Beyond the time asked for: a reader that waits without using the CPU is one that hangs."""


@dataclass(frozen=True)
class Result:
    """What came of one door; `why` is empty when it held."""

    door: str
    message: str
    why: str = ""
    data: bytes = b""


def fuzz(door: str, seed: int, seconds: float) -> Result:
    """Fuzz one door."""
    with tempfile.TemporaryDirectory(prefix="gpulaunch-fuzz-") as folder:
        shared = Path(folder) / "input"
        shared.write_bytes(b"\0" * SHARED_SIZE)
        words = [sys.executable, "-m", "tests.fuzz.worker", door, str(seed), str(seconds), str(shared)]
        env = {**os.environ, "TMPDIR": folder, "PYTHONHASHSEED": "0"}
        try:
            done = subprocess.run(
                words,
                cwd=ROOT,
                env=env,
                capture_output=True,
                text=True,
                timeout=seconds + _WAIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result(door, "", f"waited {_WAIT_S:.0f} s for one input", _input(shared))
        if done.returncode == 0:
            return Result(door, done.stdout.strip())
        return Result(door, "", _why(done), _input(shared))


def _why(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode == -signal.SIGPROF:
        return f"more than {CPU_LIMIT_S:.0f} s of CPU time for one input"
    if done.returncode < 0:
        return f"ended by {signal.Signals(-done.returncode).name}"
    return done.stdout.strip() or done.stderr.strip()[-2000:]


def _input(shared: Path) -> bytes:
    held = shared.read_bytes()
    (size,) = struct.unpack("<Q", held[:8])
    return held[8 : 8 + size]


def keep(result: Result, seed: int) -> Path:
    """Write a failing input and why it fails, and return its path."""
    FAILURES.mkdir(exist_ok=True)
    name = f"{result.door}-{hashlib.sha256(result.data).hexdigest()[:10]}"
    path = FAILURES / name
    path.write_bytes(result.data)
    (FAILURES / f"{name}.why").write_text(f"seed {seed}\n{result.why}\n")
    return path


def shown(data: bytes, door: str) -> str:
    """Try one input in this process's child; return why it fails, "" when it does not."""
    with tempfile.TemporaryDirectory(prefix="gpulaunch-fuzz-") as folder:
        shared, given = Path(folder) / "input", Path(folder) / "given"
        shared.write_bytes(b"\0" * SHARED_SIZE)
        given.write_bytes(data)
        program = "import sys; from pathlib import Path; from tests.fuzz.worker import Tries, Failed\n"
        program += "try: Tries(sys.argv[1], Path(sys.argv[2])).once(Path(sys.argv[3]).read_bytes())\n"
        program += "except Failed as failed: sys.exit(print(failed) or 3)"
        words = [sys.executable, "-c", program, door, str(shared), str(given)]
        env = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(
            words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=_WAIT_S, check=False
        )
        return _why(done) if done.returncode else ""


def main() -> int:
    """Fuzz doors side by side, or try one input again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("doors", nargs="*", choices=[*DOORS, []], metavar="DOOR")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each door")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--input", type=Path, help="an input that failed")
    parser.add_argument("--door", choices=list(DOORS), help="its door, where the file's name does not say it")
    arguments = parser.parse_args()
    if arguments.input:
        why = shown(arguments.input.read_bytes(), arguments.door or arguments.input.name.rpartition("-")[0])
        print(why or "it holds")  # noqa: T201
        return bool(why)
    seed = int.from_bytes(os.urandom(4)) if arguments.seed is None else arguments.seed
    print(f"seed {seed}; {arguments.seconds:.0f} s each; limits {CPU_LIMIT_S:.0f} s, {MEMORY_LIMIT >> 20} MB")  # noqa: T201
    return max(_all(arguments.doors or list(DOORS), seed, arguments.seconds, arguments.jobs), default=0)


def _all(doors: list[str], seed: int, seconds: float, jobs: int) -> Iterator[int]:
    with ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(lambda door: fuzz(door, seed, seconds), doors):
            if not result.why:
                print(f"{result.door}: {result.message}", flush=True)  # noqa: T201
                yield 0
                continue
            path = keep(result, seed)
            print(f"{result.door}: FAILED: {result.why}\n  make fuzz INPUT={path}", flush=True)  # noqa: T201
            yield 1


if __name__ == "__main__":
    sys.exit(main())
