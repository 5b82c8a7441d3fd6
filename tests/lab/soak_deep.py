"""The deep checks over four simulated hosts, again and again: whatever is broken is named, and nothing else.

    python -m tests.lab.soak_deep [--each 50] [--only KIND] [--seconds 3]

Each run is `gpulaunch bench` through SSH, supervisors and torch's launcher, with CPU ranks. A host is made
slow by SIGSTOP and SIGCONT, one computes wrong by a patched torch.matmul, one rank is stopped.
Which host it is goes round.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.lab.hosts import Lab, LabHost
from tests.lab.needs import missing
from tests.lab.run_cli import CHECKOUT
from tests.lab.soak import say

HOSTS = 4
PATIENCE_S = 240.0
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
THROTTLE = """\
import os, signal, time
def ranks():
    for name in os.listdir("/proc"):
        try:
            if not name.isdigit() or int(name) == os.getpid():
                continue
            if b"script/deep.py" in open("/proc/%s/cmdline" % name, "rb").read():
                yield int(name)
        except OSError:
            pass
while True:
    for number, pause in ((signal.SIGSTOP, 0.1), (signal.SIGCONT, 0.005)):
        for pid in ranks():
            try:
                os.kill(pid, number)
            except OSError:
                pass
        time.sleep(pause)
"""

Told = set[tuple[str, tuple[str, ...], str]]


class Case:
    """One measurement with a fault on one of the hosts."""

    def __init__(self, lab: Lab, home: Path, number: int, seconds: float) -> None:
        self.lab, self.home, self.seconds = lab, home, seconds
        self.hosts = lab.hosts
        self.bad = self.hosts[number % HOSTS]
        self.env: dict[str, str] = {}

    def measure(self, on_start: Callable[[], None] | None = None) -> dict[str, Any]:
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
            [sys.executable, "-m", "launcher.cli", *words, "--step-timeout", "5s", "-i", "hosts.yaml"],
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
        return document

    def run(self, kind: str) -> tuple[Told, Told]:
        """Return what was said of a kind of fault, and what was to be said."""
        bad, names = self.bad, (self.bad.name,)
        order = [host.name for host in self.hosts]
        rank = f"rank {order.index(bad.name)}"
        if kind == "slow":
            with throttled(bad):
                said = reported(self.measure())
            ours = {
                each for each in said if each[1] == names and each[0] in ("DEEP002", "DEEP005", "DEEP009")
            }
            return said - ours | {each for each in ours if each[0] == "DEEP002"}, {("DEEP002", names, rank)}
        if kind == "wrong":
            bad.put(f"{WRONG}/sitecustomize.py", PATCH)
            self.env = {"PYTHONPATH": WRONG}
            return reported(self.measure()), {("DEEP003", names, rank)}
        if kind == "silent":
            said = reported(self.measure(lambda: stop_ranks(bad)))
            named = {each for each in said if each[2] == rank and each[1] == names}
            return named, named if len(named) == 1 else {("DEEP00x", names, rank)}
        return reported(self.measure()), set()


KINDS = ("healthy", "slow", "wrong", "silent")


def reported(document: dict[str, Any]) -> Told:
    """Return who is blamed: what is critical, and every warning of products and of pairs."""
    return {
        (finding["code"], tuple(finding["hosts"]), finding["subject"])
        for finding in document["findings"]
        if finding["severity"] == "critical"
        or (finding["severity"] == "warning" and finding["code"] in ("DEEP002", "DEEP009"))
    }


@contextmanager
def throttled(host: LabHost) -> Iterator[None]:
    """Let the ranks of a host run a twentieth of the time."""
    with host.popen([sys.executable, "-I", "-c", THROTTLE]):
        yield


def stop_ranks(host: LabHost) -> None:
    """Stop the ranks of a host, and nothing else of it."""
    host.run(["pkill", "-STOP", "-f", r"rank\.py .*script/deep\.py"], check=False)


def soak(lab: Lab, out: Path, each: int, only: str, seconds: float) -> int:
    """Run every kind; return how many runs blamed another one than the guilty."""
    wrong = 0
    for kind in KINDS if not only else (only,):
        right = 0
        for number in range(each):
            case = Case(lab, out / f"{kind}-{number}", number, seconds)
            try:
                said, wanted = case.run(kind)
            except RuntimeError as error:
                said, wanted = {("failed", (), str(error))}, set()
            right += said == wanted
            if said != wanted:
                say(f"{kind} {number}: {sorted(said)} instead of {sorted(wanted)}; kept in {case.home}")
        say(f"{kind}: {right} of {each}")
        wrong += each - right
    return wrong


def main(arguments: list[str]) -> int:
    """Soak; return 1 when anything else than the guilty was named."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.soak_deep", description=__doc__)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--only", default="", choices=["", *KINDS])
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
