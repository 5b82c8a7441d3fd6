"""What supervision costs: CPU time and memory of what supervises, and the time of a training step.

    python -m bench.supervisor_overhead [--seconds 20] [--rounds 3]

The same steps (matrix products in torch, one thread) run alone, under a real supervisor on this machine, and
alone again, in turn; so does a rank that only waits, as on an idle host. Measured: the CPU of supervisor,
gauge and guardian against the run's wall time on one core, which a busy machine does not disturb, from three
seconds after the start (which takes some 50 ms, once); the largest sum of their proportional set sizes (PSS);
and the CPU time of ten steps under supervision against alone: of the fastest ten of all runs, which nothing
else on these cores disturbed, and of the median ten. Alone again against alone is the noise of each: a cost
below it does not show. Targets: 0.3 % of a core and 25 MiB together, a step at most 1 % longer.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.common import ROOT, Target, tell
from launcher.follow import protocol
from launcher.remote.program_source import read_program_source
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection

STEPS = """
import json, sys, time
import torch
torch.set_num_threads(1)
weights = torch.randn(512, 512, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=1e-6)
batch = torch.randn(64, 512)
cpu, end = [], time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    before = time.thread_time()
    for _ in range(10):
        (batch @ weights).relu().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    cpu.append(time.thread_time() - before)
    print("loss: 1.0", file=sys.stderr, flush=True)
print(json.dumps([min(cpu), sorted(cpu)[len(cpu) // 2]]), flush=True)
"""
IDLE = "import sys, time; time.sleep(float(sys.argv[1])); print([0.0, 0.0], flush=True)"
# One rank, started as accelerate's simple launcher does.
LAUNCHER = "import os,subprocess,sys; sys.exit(subprocess.call([sys.executable,*sys.argv[1:]]))"
STEADY_S = 3.0
FASTEST, MEDIAN = range(2)  # of a run's results


def beside(*names: str) -> list[list[str]]:
    """Return what travels with every run."""
    return [[f"{name}.py", read_program_source(name).decode()] for name in names]


def alone(script: Path, seconds: float) -> list[float]:
    """Return the CPU time of the fastest and of the median ten steps without supervision."""
    argv = [sys.executable, str(script), str(seconds)]
    done = subprocess.run(argv, capture_output=True, check=True, text=True, cwd=ROOT)
    return list(json.loads(done.stdout))


@dataclass(frozen=True, slots=True)
class Supervised:
    """One run: its fastest and median ten steps in s, the share of a core and MiB of what supervised it."""

    steps_s: list[float]
    share: float
    mib: float


def supervised(home: Path, run_id: str, seconds: float, script: str) -> Supervised:
    """Run a script as one rank under a supervisor."""
    spec = {
        "run_id": run_id,
        "argv": [sys.executable, "-c", LAUNCHER, "{run_dir}/rank.py", "{run_dir}/s/x.py", str(seconds)],
        "env": {"LOCAL_RANK": "0"},
        "unset": [],
        "cwd": str(home),
        "files": [["s/x.py", script], *beside("gauge", "stacks", "cgroup")],
        "grace_s": 60.0,
        "main_port": None,
        "rank_source": read_program_source("rank").decode(),
    }
    argv = ("env", f"XDG_STATE_HOME={home}", *protocol.build_supervisor_argv(sys.executable, "start", run_id))
    stream = LocalConnection(Endpoint("here", "local", "")).start(argv)
    stream.write(protocol.encode_request({"mode": "start", "spec": spec}))
    reader, keepers, log, used, base, mib = protocol.FrameReader(), [], b"", 0.0, 0.0, 0.0
    began = first = last = time.monotonic()
    ended = False
    while not ended:
        for frame in reader.feed(stream.read(0.2) or b""):
            if "state" in frame.header:
                keepers = [frame.header["state"][who][0] for who in ("supervisor", "guardian")]
                keepers += _gauge_of(keepers[0], deadline=time.monotonic() + 5.0)
                began = time.monotonic()
            log += frame.data if frame.header.get("log") == "rank-0.log" else b""
            ended = ended or "end" in frame.header
        seen, now = sum(_cpu_s(pid) for pid in keepers), time.monotonic()
        if now - began < STEADY_S:
            base, first, used, last = seen, now, seen, now
        elif seen >= used:
            used, last = seen, now
            mib = max(mib, sum(map(_pss_mib, keepers)))
        stream.write(b"beat\n")
    stream.close()
    if last <= first:
        raise SystemExit(f"a run of less than {STEADY_S:g} s is too short")
    return Supervised(json.loads(log.splitlines()[-1]), (used - base) / (last - first), mib)


def _gauge_of(supervisor: int, deadline: float) -> list[int]:
    """Return the supervisor's child that measures."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    while time.monotonic() < deadline:
        pids = children.read_text().split()
        found = [int(pid) for pid in pids if b"/gauge.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        if found:
            return found
        time.sleep(0.01)
    raise SystemExit("the supervisor has started no gauge")


def _pss_mib(pid: int) -> float:
    """Return a process's memory, what it shares with others divided among them."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:"))


def _ratio(these: list[list[float]], to: list[list[float]], at: int) -> float:
    of = min if at == FASTEST else statistics.median
    return of([each[at] for each in these]) / of([each[at] for each in to])


def _cpu_s(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return -1.0


def main() -> int:
    """Measure, tell, return 1 when a target is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    bare, again, under, idle = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "steps.py")
        script.write_text(STEPS)
        for number in range(arguments.rounds):
            bare.append(alone(script, arguments.seconds))
            under.append(supervised(Path(folder), f"bench{number}", arguments.seconds, STEPS))
            again.append(alone(script, arguments.seconds))
            idle.append(supervised(Path(folder), f"idle{number}", arguments.seconds, IDLE))
    runs = {"training": [*map(asdict, under)], "idle": [*map(asdict, idle)]}
    print(json.dumps({"alone_s": bare, "alone_again_s": again, **runs}))
    steps = [each.steps_s for each in under]
    for kind, at in (("fastest", FASTEST), ("median", MEDIAN)):
        print(
            f"{kind} ten steps, supervised / alone: {_ratio(steps, [*bare, *again], at):.3f};"
            f" the noise, alone again / alone: {_ratio(again, bare, at):.3f}"
        )
    share = statistics.median(each.share for each in under)
    idle_share = statistics.median(each.share for each in idle)
    mib = statistics.median(each.mib for each in (*under, *idle))
    return tell(
        [
            Target("CPU of supervisor, gauge and guardian / a core", share, 0.003),
            Target("the same on an idle host / a core", idle_share, 0.003),
            Target("memory of the three / 25 MiB", mib / 25, 1.0),
            Target("fastest ten steps, supervised / alone", _ratio(steps, [*bare, *again], FASTEST), 1.01),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
