"""Following ranks that print as fast as they can, against clush and pdsh on the same hosts in the same run.

    python -m bench.follow_output [--hosts 4] [--ranks 4] [--lines 50000]      (root: simulated hosts)

Every rank writes numbered lines of 100 bytes. All three ways must bring every line here, whole and once;
gpulaunch also keeps each rank's bytes in a file. Measured from the first line here to the last. Targets: no
line lost or torn, at least the throughput of clush and of pdsh, and a client whose memory does not grow with
the output.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import ROOT, Target, tell
from launcher.rundir.run_id import make_run_id
from tests.lab.hosts import Lab

START_BYTES = 4096  # what is said before the first line is less
PAD = 100 - len("rank 00 line 0000000 \n")
# Blocks of whole lines below PIPE_BUF: where a way joins ranks in one pipe, the ranks do not tear them.
PRINTER = """
import os, sys
rank, lines = int(os.environ.get("RANK", sys.argv[-1])), %d
for start in range(0, lines, 32):
    text = "".join("rank %%02d line %%07d %s\\n" %% (rank, n) for n in range(start, min(start + 32, lines)))
    data = text.encode()
    while data:
        data = data[os.write(1, data):]
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one way brought."""

    mb_per_s: float
    lost: int
    torn: int
    twice: int
    client_mib: float  # the largest resident set


def follow(argv: Sequence[str], env: dict[str, str], cwd: Path, expected: int) -> Taken:
    """Run a client, its output into a file that nobody reads meanwhile; then count the lines."""
    target = cwd / "output"
    began = last = 0.0
    size = peak = 0
    with target.open("wb") as output:
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdout=output, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        now, grown = time.monotonic(), target.stat().st_size
        if grown > START_BYTES and not began:
            began = now
        if grown > size:
            size, last = grown, now
        peak = peak_kib(process.pid) or peak
        time.sleep(0.01)
    seen, torn = count(target)
    target.unlink()
    return Taken(
        mb_per_s=len(seen) * 100 / 1e6 / max(last - began, 0.01),
        lost=expected - len(seen),
        torn=torn,
        twice=seen.total() - len(seen),
        client_mib=peak / 1024,
    )


def count(output: Path) -> tuple[Counter[tuple[int, int]], int]:
    """Return how often each line came whole, and how many came torn."""
    pattern = re.compile(rb"rank (\d+) line (\d+) x{%d}$" % PAD)
    seen: Counter[tuple[int, int]] = Counter()
    torn = 0
    with output.open("rb") as file:
        for line in file:
            found = pattern.search(line.rstrip(b"\n"))
            if found is not None:
                seen[int(found[1]), int(found[2])] += 1
            torn += found is None and b" line " in line and b"xx" in line
    return seen, torn


def peak_kib(pid: int) -> int:
    """Return the largest resident set so far; not from wait4, which counts what the child was before exec."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def gpulaunch(lab: Lab, home: Path, ranks: int, lines: int) -> Taken:
    """Follow a run of plain ranks, as `gpulaunch run` does once its plan stands."""
    names = [host.name for host in lab.hosts]
    document = {"inventory": str(lab.inventory_path), "hosts": names, "ranks": ranks, "grace_s": 60.0}
    document |= {"run_id": make_run_id("bench"), "detach": False, "script": printer(lines)}
    config = home / "survive.json"
    config.write_text(json.dumps(document))
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": ""}
    argv = [sys.executable, "-m", "tests.lab.fault_client", str(config)]
    return follow(argv, env, home, len(names) * ranks * lines)


def other(argv: Sequence[str], lab: Lab, home: Path, ranks: int, lines: int) -> Taken:
    """Have another tool run the same printers: as many on each host, side by side in one shell."""
    for number, host in enumerate(lab.hosts):
        host.put("/tmp/printer.py", printer(lines))
        first = number * ranks
        each = " ".join(str(first + n) for n in range(ranks))
        command = f"for n in {each}; do {sys.executable} /tmp/printer.py $n & done; wait\n"
        host.put("/tmp/printers.sh", command)
    env = {**os.environ, "HOME": str(home)}
    return follow([*argv, "sh /tmp/printers.sh"], env, home, len(lab.hosts) * ranks * lines)


def printer(lines: int) -> str:
    """Return the script of a rank."""
    return PRINTER % (lines, "x" * PAD)


def ways(lab: Lab) -> dict[str, list[str]]:
    """Return the command lines of the others that are installed."""
    names = ",".join(host.name for host in lab.hosts)
    found = {}
    if shutil.which("clush"):
        found["clush"] = ["clush", "-w", names, "-o", f"-F {lab.ssh_config}", "-S"]
    if shutil.which("pdsh"):
        found["pdsh"] = ["env", f"PDSH_SSH_ARGS_APPEND=-F {lab.ssh_config}", "pdsh", "-R", "ssh", "-w", names]
    return found


def main() -> int:
    """Measure, tell, return 1 when a target is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=4, help="on each host")
    parser.add_argument("--lines", type=int, default=50_000, help="of each rank")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Lab.up(arguments.hosts, Path(folder, "lab")) as lab:
        home = Path(folder, "home")
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "known_hosts").write_text(lab.known_hosts.read_text())
        half = gpulaunch(lab, home, arguments.ranks, max(1, arguments.lines // 2))
        taken = {"gpulaunch": gpulaunch(lab, home, arguments.ranks, arguments.lines)}
        for name, argv in ways(lab).items():
            taken[name] = other(argv, lab, home, arguments.ranks, arguments.lines)
    ours = taken["gpulaunch"]
    for name, way in taken.items():
        counts = f"{way.lost} lost, {way.torn} torn, {way.twice} twice"
        print(f"{name:10} {way.mb_per_s:8.1f} MB/s  {counts}  client {way.client_mib:.0f} MiB")
    print(f"gpulaunch with half of the output: client {half.client_mib:.0f} MiB")
    targets = [
        Target(f"throughput / {name}", ours.mb_per_s / way.mb_per_s, 1.0, at_least=True)
        for name, way in taken.items()
        if name != "gpulaunch"
    ]
    targets.append(Target("client memory / with half of the output", ours.client_mib / half.client_mib, 1.1))
    targets.append(Target("lines lost, torn or twice", float(ours.lost + ours.torn + ours.twice), 0.0))
    return tell(targets)


if __name__ == "__main__":
    sys.exit(main())
