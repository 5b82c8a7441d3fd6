"""The deep checks over four simulated hosts, again and again: whatever is broken is named, and nothing else.

    python -m tests.lab.soak_deep [--each 50] [--only KIND...] [--seconds 3]

Each run is `gpulaunch bench` through SSH, supervisors and torch's launcher, with CPU ranks. The rank of a
host gets a CPU quota of 5 %, two hosts reach each other with 20 MB/s, one computes wrong by a patched
torch.matmul, one rank is stopped. Which host it is goes round. What is unknown because the machine is busy
blames nobody, and is counted beside.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

from tests.lab.hosts import Lab, LabHost
from tests.lab.needs import missing
from tests.lab.network import slow_link
from tests.lab.run_cli import CHECKOUT
from tests.lab.soak import say

HOSTS = 4
PATIENCE_S = 240.0
WAIT_S = 60.0
WRONG = "/opt/wrong"
PATCH = """\
import torch
true = torch.matmul
def matmul(left, right, **options):
    product = true(left, right, **options)
    if not options:
        product.view(-1)[0] += 1.0
    return product
torch.matmul = matmul
"""
QUOTA = Path("/sys/fs/cgroup/cpu")
SEEN = "/run/cgroup-cpu"  # on a host, whose /sys has no control groups
QUOTA_US, PERIOD_US = 5_000, 100_000
LINK_BYTES_PER_S = 20e6
RANK = rb"script/deep.py"

Answer = TypeVar("Answer")
Told = set[tuple[str, tuple[str, ...], str]]


class Case:
    """One measurement with a fault on one of the hosts."""

    def __init__(self, lab: Lab, home: Path, number: int, seconds: float) -> None:
        self.lab, self.home, self.seconds = lab, home, seconds
        self.hosts = lab.hosts
        self.bad = self.hosts[number % HOSTS]
        self.other = self.hosts[(number + 1 + number // HOSTS % (HOSTS - 1)) % HOSTS]
        self.env: dict[str, str] = {}
        self.unknown = 0

    def measure(self, on_start: Callable[[], None] | None = None, timeout: str = "30s") -> dict[str, Any]:
        """Run bench; `on_start` is called once the ranks are as planned. Returns its document."""
        home = self.home
        (home / ".ssh").mkdir(parents=True, exist_ok=True)
        (home / ".ssh" / "known_hosts").write_text(self.lab.known_hosts.read_text())
        hosts = yaml.safe_load(self.lab.inventory_path.read_text())
        entry = hosts["hosts"].get(self.bad.name) or {}
        hosts["hosts"][self.bad.name] = {**entry, "env": {**entry.get("env", {}), **self.env}}
        (home / "hosts.yaml").write_text(yaml.safe_dump(hosts))
        words = ["bench", *(host.name for host in self.hosts), "--json", "--seconds", str(self.seconds)]
        done = subprocess.Popen(
            [sys.executable, "-m", "launcher.cli", *words, "--step-timeout", timeout, "-i", "hosts.yaml"],
            cwd=home,
            env={**os.environ, "HOME": str(home), "PYTHONPATH": str(CHECKOUT), "XDG_STATE_HOME": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        killer = threading.Timer(PATIENCE_S, done.kill)
        killer.start()
        said = []
        for line in done.stderr or ():
            said.append(line)
            if "as planned" in line and on_start is not None:
                on_start()
        out = done.stdout.read() if done.stdout else ""
        done.wait()
        killer.cancel()
        if not out.startswith("{"):
            raise RuntimeError("".join(said)[-2000:])
        document: dict[str, Any] = json.loads(out)
        (home / "bench.json").write_text(out)
        self.unknown = sum(finding["severity"] == "unknown" for finding in document["findings"])
        return document

    def run(self, kind: str) -> tuple[Told, Told]:
        """Return what was said of a kind of fault, and what was to be said."""
        bad, names = self.bad, (self.bad.name,)
        order = [host.name for host in self.hosts]
        rank = f"rank {order.index(bad.name)}"
        if kind == "slow":
            with Quota(bad) as quota:
                said = reported(self.measure(quota.apply))
            ours = {
                each
                for each in said
                if each[1] == names and each[0] in ("DEEP002", "DEEP004", "DEEP005", "DEEP009")
            }
            return said - ours | {each for each in ours if each[0] == "DEEP002"}, {("DEEP002", names, rank)}
        if kind == "link":
            pair = tuple(sorted((bad.name, self.other.name), key=order.index))
            with slow_link(bad, self.other, LINK_BYTES_PER_S):
                return reported(self.measure()), {("DEEP009", pair, "link")}
        if kind == "wrong":
            bad.put(f"{WRONG}/sitecustomize.py", PATCH)
            self.env = {"PYTHONPATH": WRONG}
            return reported(self.measure()), {("DEEP003", names, rank)}
        if kind == "silent":
            said = reported(self.measure(lambda: stop_ranks(bad), "5s"))
            named = {each for each in said if each[2] == rank and each[1] == names}
            return said, named if len(named) == 1 else {("DEEP00x", names, rank)}
        return reported(self.measure()), set()


KINDS = ("healthy", "slow", "link", "wrong", "silent")


def reported(document: dict[str, Any]) -> Told:
    """Return who is blamed: what is critical, and every warning of products and of pairs."""
    return {
        (finding["code"], tuple(finding["hosts"]), finding["subject"])
        for finding in document["findings"]
        if finding["severity"] == "critical"
        or (finding["severity"] == "warning" and finding["code"] in ("DEEP002", "DEEP009"))
    }


class Quota:
    """A CPU quota of a host's rank, which the host sees as a container sees its own."""

    def __init__(self, host: LabHost) -> None:
        self._host = host
        self._group = QUOTA / f"soak-deep-{os.getpid()}"

    def __enter__(self) -> Self:
        self._group.mkdir()
        (self._group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        words = ["mount", "-t", "cgroup", "-o", "cpu", "cgroup", SEEN]
        self._host.run(["sh", "-c", f"mountpoint -q {SEEN} || {{ mkdir -p {SEEN} && {shlex.join(words)}; }}"])
        return self

    def apply(self) -> None:
        """Take the rank into the group, and limit it once it measures: to import torch would take minutes."""
        inside = Path(f"/proc/{self._host.init_pid}/ns/pid").readlink()
        found = wait_for(lambda: [pid for pid in every_pid() if is_rank(pid) and namespace(pid) == inside])
        (self._group / "cgroup.procs").write_text(str(found[0]))
        run = Path(os.fsdecode(command(found[0]).split(RANK)[0].split(b"\0")[-1]))
        events = self._host.path(str(run / "events.jsonl"))
        wait_for(lambda: b'"step": "memory"' in events.read_bytes())
        (self._group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))

    def __exit__(self, *_: object) -> None:
        wait_for(lambda: not (self._group / "cgroup.procs").read_text())
        self._group.rmdir()


def wait_for(ask: Callable[[], Answer]) -> Answer:
    """Return the first answer that is true. Raises RuntimeError."""
    deadline = time.monotonic() + WAIT_S
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise RuntimeError("a rank did not come so far")
        time.sleep(0.05)
    return answer


def every_pid() -> list[int]:
    """Return the processes of this machine, those of its labs included."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def command(pid: int) -> bytes:
    """Return a process's command line, b"" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_rank(pid: int) -> bool:
    """Return whether a process is a rank of the deep checks, and not what started it."""
    try:
        return RANK in command(pid) and b"\0LOCAL_RANK=" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def namespace(pid: int) -> Path | None:
    """Return a process's PID namespace."""
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None


def stop_ranks(host: LabHost) -> None:
    """Stop the ranks of a host, and nothing else of it."""
    host.run(["pkill", "-STOP", "-f", r"rank\.py .*script/deep\.py"], check=False)


def soak(lab: Lab, out: Path, each: int, kinds: Sequence[str], seconds: float) -> int:
    """Run the kinds in turn; return how many runs blamed another one than the guilty."""
    right, unknown = Counter[str](), Counter[str]()
    for number in range(each):
        for kind in kinds:
            case = Case(lab, out / f"{kind}-{number}", number, seconds)
            try:
                said, wanted = case.run(kind)
            except RuntimeError as error:
                said, wanted = {("failed", (), str(error))}, set()
            right[kind] += said == wanted
            unknown[kind] += case.unknown > 0 and kind != "silent"
            if said != wanted:
                say(f"{kind} {number}: {sorted(said)} instead of {sorted(wanted)}; kept in {case.home}")
            say(f"{kind}: {right[kind]} of {number + 1}, {unknown[kind]} with something unknown")
    return each * len(kinds) - right.total()


def main(arguments: list[str]) -> int:
    """Soak; return 1 when anything else than the guilty was named."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.soak_deep", description=__doc__)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args(arguments)
    if problem := missing():
        say(problem)
        return 1
    out = Path(tempfile.mkdtemp(prefix="soak-deep-"))
    with Lab.up(HOSTS, out / "lab") as lab:
        wrong = soak(lab, out, options.each, options.only, options.seconds)
    say(f"{wrong} wrong" + (f"; kept in {out}" if wrong else ""))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
