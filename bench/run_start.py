"""How long until the script's first line: `gpulaunch run` here, preflight and all, beside plain accelerate.

    python bench/run_start.py [--rounds N] [--json]

Both start the same script with the same ranks, turn by turn, so that whatever else the machine does hits both
alike. The time runs from the start of the command to the moment at which rank 0 runs the script's first line,
which it writes down itself. The ratio of the medians should be at most 1.15.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = 1.15
CHECKOUT = Path(__file__).resolve().parents[1]
SCRIPT = """\
import os, time
if os.environ.get("RANK", "0") == "0":
    open({mark!r}, "w").write(repr(time.time()))
"""


def plain(script: Path, ranks: int) -> tuple[list[str], dict[str, str]]:
    """Return accelerate's own command line for these ranks on the CPU."""
    argv = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
    ]
    shape = ["--cpu"] if ranks == 1 else ["--multi_gpu"]  # --cpu starts one process, whatever is asked
    env = {} if ranks == 1 else {"ACCELERATE_USE_CPU": "true"}
    return [*argv, *shape, "--num_processes", str(ranks), "--num_machines", "1", str(script)], env


def ours(config: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line of gpulaunch."""
    return [sys.executable, "-m", "launcher.cli", "run", "-c", str(config)], {"PYTHONPATH": str(CHECKOUT)}


def first_line_s(command: tuple[list[str], dict[str, str]], mark: Path, cwd: Path) -> float:
    """Run a command; return the seconds from its start to the script's first line."""
    argv, env = command
    mark.unlink(missing_ok=True)
    started = time.time()
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(argv)} failed:\n{done.stdout.decode(errors='replace')}")
    return float(mark.read_text()) - started


def measure(ranks: int, rounds: int, place: Path) -> dict[str, float]:
    """Return the medians of both, in seconds, and their ratio."""
    script, mark, config = place / "script.py", place / "mark", place / "job.yaml"
    script.write_text(SCRIPT.format(mark=str(mark)))
    job = {"script": "script.py", "gpus": "none", "processes_per_host": ranks, "precision": "no"}
    config.write_text(json.dumps(job))
    times: dict[str, list[float]] = {"plain": [], "gpulaunch": []}
    for _ in range(rounds):
        times["plain"].append(first_line_s(plain(script, ranks), mark, place))
        times["gpulaunch"].append(first_line_s(ours(config), mark, place))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {**medians, "ratio": medians["gpulaunch"] / medians["plain"]}


def main() -> int:
    """Measure for one rank and for two; return 1 when a ratio is above the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        for ranks in (1, 2):
            found[f"{ranks}"] = measure(ranks, options.rounds, Path(place))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for ranks_text, row in found.items():
            print(
                f"{ranks_text} rank(s): plain accelerate {row['plain']:.2f} s,"
                f" gpulaunch {row['gpulaunch']:.2f} s, ratio {row['ratio']:.2f} (target {TARGET})"
            )
    return int(any(row["ratio"] > TARGET for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
