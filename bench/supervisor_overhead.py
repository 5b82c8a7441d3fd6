"""What supervision costs a training step on the CPU: CPU time of what supervises, and the step's own.

    python -m bench.supervisor_overhead [--seconds 20] [--rounds 3]

The same steps (matrix products in torch, one thread) run alone and under a real supervisor on this machine,
in turn. Two numbers: the CPU time of supervisor, gauge and guardian against the run's wall time on one core,
which a busy machine does not disturb, and the median step under supervision against alone. Targets: each
below 1%.
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

from bench.common import ROOT, Target, tell
from launcher.follow import protocol
from launcher.remote.programs import program_source
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
print(json.dumps(sorted(cpu)[len(cpu) // 2]), flush=True)
"""
# One rank, started as accelerate's simple launcher does.
LAUNCHER = "import os,subprocess,sys; sys.exit(subprocess.call([sys.executable,*sys.argv[1:]]))"
TICKS = os.sysconf("SC_CLK_TCK")


def beside(*names: str) -> list[list[str]]:
    """Return what travels with every run."""
    return [[f"{name}.py", program_source(name).decode()] for name in names]


def alone(script: Path, seconds: float) -> float:
    """Return the median CPU time of ten steps without supervision."""
    argv = [sys.executable, str(script), str(seconds)]
    done = subprocess.run(argv, capture_output=True, check=True, text=True, cwd=ROOT)
    return float(done.stdout)


def supervised(home: Path, number: int, seconds: float) -> tuple[float, float]:
    """Return the median of ten steps, and the share of one core that what supervises took."""
    run_id = f"bench{number}"
    spec = {
        "run_id": run_id,
        "argv": [sys.executable, "-c", LAUNCHER, "{run_dir}/rank.py", "{run_dir}/s/x.py", str(seconds)],
        "env": {"LOCAL_RANK": "0"},
        "unset": [],
        "cwd": str(home),
        "files": [["s/x.py", STEPS], *beside("gauge", "stacks", "cgroup")],
        "grace_s": 60.0,
        "main_port": None,
        "rank_source": program_source("rank").decode(),
    }
    argv = ("env", f"XDG_STATE_HOME={home}", *protocol.command(sys.executable, "start", run_id))
    stream = LocalConnection(Endpoint("here", "local", "")).start(argv)
    stream.write(protocol.request({"mode": "start", "spec": spec}))
    reader, keepers, log, used = protocol.FrameReader(), [], b"", 0.0
    began = last = time.monotonic()
    ended = False
    while not ended:
        for frame in reader.feed(stream.read(0.2) or b""):
            if "state" in frame.header:
                keepers = [frame.header["state"][who][0] for who in ("supervisor", "guardian")]
                keepers += _gauge_of(keepers[0], deadline=time.monotonic() + 5.0)
                began = time.monotonic()
            log += frame.data if frame.header.get("log") == "rank-0.log" else b""
            ended = ended or "end" in frame.header
        seen = sum(_cpu_s(pid) for pid in keepers)
        if seen >= used:
            used, last = seen, time.monotonic()
        stream.write(b"beat\n")
    stream.close()
    return float(log.splitlines()[-1]), used / (last - began)


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


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> int:
    """Measure, tell, return 1 when a target is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    bare, under, shares = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "steps.py")
        script.write_text(STEPS)
        for number in range(arguments.rounds):
            bare.append(alone(script, arguments.seconds))
            step, share = supervised(Path(folder), number, arguments.seconds)
            under.append(step)
            shares.append(share)
    document = {"alone_s": bare, "supervised_s": under, "keepers_share_of_a_core": shares}
    print(json.dumps(document))
    ratio = statistics.median(under) / statistics.median(bare)
    return tell(
        [
            Target("CPU of supervisor, gauge and guardian / a core", statistics.median(shares), 0.003),
            Target("ten steps, supervised / alone", ratio, 1.01),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
