"""How long until the script's first line: `gpulaunch run` here, preflight and all, beside plain accelerate.

    python -m bench.run_start [--rounds N] [--only WORDS] [--json]

Each round starts the same script with the same ranks by `accelerate launch`, by `python -m
accelerate.commands.launch` (which skips accelerate's other commands, so it is a little quicker) and by
`gpulaunch run`, in changing order, so that whatever else the machine does hits all alike. All are
byte-compiled, as pip leaves them. What is compared is the median over the rounds of the ratio within a round.
Target: at most 1.0 of either.

Two scripts: one that does nothing, whose first line writes the time down, and the packaged training
(templates/paper_r64.py), whose first printed line is waited for: it comes after its imports, as in any real
script, and for gpulaunch also after the way through the host's log and back.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import ROOT, Target, as_installed, tell

LIMIT = 1.0
PATIENCE_S = 300.0
NOTHING = """\
import os, time
if os.environ.get("RANK", "0") == "0":
    open({mark!r}, "w").write(repr(time.time()))
"""
TRAINING = ROOT / "templates" / "paper_r64.py"
TRAINING_ARGS = ("--config", "paper_r64", "--batch-size", "8", "--gradient-accumulation", "8")
TRAINING_SAYS = b"rank 0 of "


@dataclass(frozen=True, slots=True)
class Way:
    """A command that starts a script, and its environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One script with its ranks, to be started in several ways."""

    name: str
    ranks: int
    script: Path
    args: tuple[str, ...]
    seconds: Callable[[Way, Path], float]


def plain(launcher: Sequence[str], case: Case, env: Mapping[str, str]) -> Way:
    """Return accelerate's command line for these ranks on the CPU."""
    shape = ("--cpu",) if case.ranks == 1 else ("--multi_gpu",)  # --cpu starts one process, whatever is asked
    if case.ranks > 1:
        env = {**env, "ACCELERATE_USE_CPU": "true"}
    fixed = ("--mixed_precision", "no", "--dynamo_backend", "no", "--num_machines", "1")
    count = ("--num_processes", str(case.ranks))
    return Way((*launcher, *fixed, *shape, *count, str(case.script), *case.args), env)


def ours(case: Case, place: Path, env: Mapping[str, str]) -> Way:
    """Return the command line of gpulaunch."""
    config = place / "job.yaml"
    job = {"script": str(case.script), "gpus": "none", "precision": "no", "args": list(case.args)}
    config.write_text(json.dumps({**job, "processes_per_host": case.ranks}))
    return Way((sys.executable, "-m", "launcher.cli", "run", "-c", str(config)), env)


def until_mark(way: Way, place: Path) -> float:
    """Run to the end; return the seconds from the start to the moment that the script wrote down."""
    mark = place / "mark"
    mark.unlink(missing_ok=True)
    started = time.time()
    done = subprocess.run(
        way.argv,
        cwd=place,
        env=way.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=PATIENCE_S,
        start_new_session=True,  # Linux shares a busy machine out by sessions, and gpulaunch makes one
    )
    if done.returncode:
        sys.exit(f"{' '.join(way.argv)} failed:\n{done.stdout.decode(errors='replace')}")
    return float(mark.read_text()) - started


def until_said(way: Way, place: Path) -> float:
    """Return the seconds from the start to the training's first printed line, then end it."""
    started = time.monotonic()
    with subprocess.Popen(
        way.argv,
        cwd=place,
        env=way.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        said = b""
        for line in process.stdout:
            said += line
            if TRAINING_SAYS in line:
                took = time.monotonic() - started
                os.killpg(process.pid, signal.SIGINT)
                process.stdout.read()
                process.wait(PATIENCE_S)
                return took
    sys.exit(f"{' '.join(way.argv)} failed:\n{said.decode(errors='replace')}")


def measure(case: Case, rounds: int, place: Path) -> dict[str, float]:
    """Return the median seconds of each way, and of the ratios of gpulaunch to the other two."""
    accelerate = Path(sys.executable).with_name("accelerate")
    env = as_installed()
    ways = {
        "accelerate launch": plain((sys.executable, str(accelerate), "launch"), case, env),
        "accelerate.commands.launch": plain((sys.executable, "-m", "accelerate.commands.launch"), case, env),
        "gpulaunch": ours(case, place, env),
    }
    names = list(ways)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names if turn % 2 else names[::-1]:
            seconds = case.seconds(ways[name], place)
            if turn:  # the first ones compile
                times[name].append(seconds)
    found = {f"{name} s": statistics.median(values) for name, values in times.items()}
    for name in names[:2]:
        pairs = zip(times["gpulaunch"], times[name], strict=True)
        found[f"ratio to {name}"] = statistics.median(mine / theirs for mine, theirs in pairs)
    return found


def main() -> int:
    """Measure every case; return 1 when a ratio is above the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", metavar="WORDS", help="Cases whose name holds this.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        nothing = place / "nothing.py"
        nothing.write_text(NOTHING.format(mark=str(place / "mark")))
        cases = [
            Case("does nothing, 1 rank", 1, nothing, (), until_mark),
            Case("does nothing, 2 ranks", 2, nothing, (), until_mark),
            Case("paper_r64, 1 rank", 1, TRAINING, TRAINING_ARGS, until_said),
        ]
        found = {
            case.name: measure(case, options.rounds, place) for case in cases if options.only in case.name
        }
    if options.json:
        print(json.dumps(found, indent=1))
    for name, row in found.items():
        shown = ", ".join(f"{what} {value:.2f}" for what, value in row.items())
        print(f"{name}: {shown}", file=sys.stderr)
    return tell(
        [
            Target(f"{name}: {what}", value, LIMIT)
            for name, row in found.items()
            for what, value in row.items()
            if what.startswith("ratio")
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
