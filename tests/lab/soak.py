"""A client that is ended at random moments of its launches over two hosts: nothing may be left, nothing lost.

    python -m tests.lab.soak [--each 100] [--seed N] [--out DIRECTORY] [--only KIND]

Each row of KINDS is a signal and an `on_disconnect`. After each the exit code must be as documented, and the
run must have ended everywhere, or go on on every host and be found, followed and stopped by gpulaunch's own
commands.
What fails is kept in --out, with the seed that repeats it: `--seed N --each 1 --only KIND`.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.lab.fault_client import PORT
from tests.lab.fault_runs import RUNS, Laptop, claims, listening
from tests.lab.fault_scripts import COUNT
from tests.lab.hosts import Lab
from tests.lab.needs import missing
from tests.lab.run_cli import Running

HALF_RUN_S = 90.0
"""A half-started run ends after 30 s without its client; a busy machine takes its time for what follows."""
END_S = 60.0
STOP_TIMEOUT_S = 4.0


class Kind(NamedTuple):
    """One way to end a client, and the exit codes that are documented for it."""

    number: signal.Signals
    policy: str
    codes: tuple[int, ...]  # a negative one: before a run was there, the signal itself ended the client

    @property
    def name(self) -> str:
        """How the command line and the report name it."""
        return f"{self.number.name}-{self.policy}"

    @property
    def leaves(self) -> bool:
        """Whether a run that has started on every host goes on."""
        return self.policy == "continue" and self.number in (signal.SIGHUP, signal.SIGKILL)


KINDS = (
    Kind(signal.SIGINT, "continue", (130, -signal.SIGINT)),
    Kind(signal.SIGTERM, "continue", (130, -signal.SIGTERM)),
    Kind(signal.SIGHUP, "continue", (129, -signal.SIGHUP)),
    Kind(signal.SIGKILL, "continue", (-signal.SIGKILL,)),
    Kind(signal.SIGHUP, "stop", (130, -signal.SIGHUP)),
    Kind(signal.SIGKILL, "stop", (-signal.SIGKILL,)),
)


class Wrong(Exception):
    """What is not as documented."""


class Case:
    """One launch and its end."""

    def __init__(self, lab: Lab, kind: Kind, home: Path) -> None:
        self._kind = kind
        self._laptop = Laptop(lab, home)
        self._where = ("--hosts", ",".join(self._laptop.names()))
        self.output = ""

    def run(self, after_s: float) -> str:
        """Launch, end the client after so many seconds, look at what is left; return what came of it."""
        laptop = self._laptop
        words = ["--on-disconnect", self._kind.policy]
        if self._kind.policy == "stop":
            words += ["--disconnect-timeout", f"{STOP_TIMEOUT_S:g}s"]
        running = laptop.train(COUNT, *words, processes_per_host=1)
        try:
            time.sleep(after_s)
            running.process.send_signal(self._kind.number)
            code, self.output = running.end(END_S)
            if code not in self._kind.codes:
                raise Wrong(f"exit code {code} instead of {self._kind.codes}")
            if code < 0 and self._kind.number != signal.SIGKILL and "==> run " in self.output:
                raise Wrong(f"exit code {code} although a run was there")
            return self._judge()
        finally:
            self._end(running)

    def _judge(self) -> str:
        nodes = self._nodes()
        kept = [node for node in nodes if node["detached"]]
        if self._kind.leaves and nodes and len(kept) == len(self._laptop.hosts):
            self._still_running(next(iter(self._runs())))
            came = "went on"
        else:
            came = "ended" if "==> run " in self.output else "ended before a run was there"
        self._nothing_left(HALF_RUN_S if self._kind.number == signal.SIGKILL else END_S)
        if self._kind.leaves and kept and came != "went on":
            came = "ended in the middle of the promises"
        return came

    def _still_running(self, run_id: str) -> None:
        """The run lives on every host, is followed where it is, and is stopped."""
        time.sleep(1.0)
        if {node["state"] for node in self._nodes()} != {"running"}:
            raise Wrong(f"it was to go on: {self._nodes()}")
        attached = self._laptop.start("attach", run_id, *self._where)
        attached.until(lambda text: "] line " in text, END_S)
        attached.interrupt()
        code, text = attached.end(END_S)
        self._expect(code == 0 and "the run continues" in text, f"attach ended with {code}: {text}")
        code, text = self._laptop.run("stop", run_id, "--grace", "2s", *self._where)
        self._expect(code == 0, f"stop ended with {code}: {text}")

    def _runs(self) -> dict[str, list[dict[str, Any]]]:
        code, text = self._laptop.run("ps", "--json", *self._laptop.names())
        self._expect(code == 0, f"ps ended with {code}: {text}")
        runs = json.loads(text)["runs"]
        return {run["run_id"]: run["nodes"] for run in runs if run["state"] in ("running", "stopping")}

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for nodes in self._runs().values() for node in nodes]

    def _nothing_left(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while left := {**dict(self._left_there()), **dict(self._left_here())}:
            if time.monotonic() > deadline:
                raise Wrong(f"left after {within_s:g} s: {left}")
            time.sleep(0.2)

    def _left_there(self) -> Iterator[tuple[str, object]]:
        for host in self._laptop.hosts:
            if strays := host.strays():
                yield host.name, strays
            elif claims(host):
                yield host.name, claims(host)
            elif PORT in listening(host):
                yield host.name, f"port {PORT}"

    def _left_here(self) -> Iterator[tuple[str, object]]:
        mark = b"HOME=" + os.fsencode(self._laptop.home)
        for name in os.listdir("/proc"):  # noqa: PTH208 - procfs
            with suppress(OSError, ValueError):
                if mark in Path(f"/proc/{int(name)}/environ").read_bytes().split(b"\0"):
                    yield f"here, pid {name}", Path(f"/proc/{int(name)}/cmdline").read_bytes()[:200]

    @staticmethod
    def _expect(true: object, why: str) -> None:
        if not true:
            raise Wrong(why)

    def _end(self, running: Running) -> None:
        """Leave nothing to the next case, whatever this one has come to."""
        running.end(0.0)
        self._laptop.close()
        for host in self._laptop.hosts:
            for pid in host.strays():
                host.kill(pid)
            shutil.rmtree(host.path(RUNS), ignore_errors=True)
            for claim in claims(host):
                claim.unlink(missing_ok=True)


def whole_start_s(lab: Lab, home: Path) -> float:
    """Return how long a launch takes here until its ranks print."""
    laptop = Laptop(lab, home)
    began = time.monotonic()
    running = laptop.train(COUNT, processes_per_host=1)
    try:
        running.until(lambda text: text.count("] line 3\n") == len(laptop.hosts))
        took = time.monotonic() - began
        running.interrupt()
        running.end()
    finally:
        laptop.close()
    return took


def soak(lab: Lab, out: Path, seed: int, each: int, only: str) -> int:
    """Run every case; return how many were wrong."""
    took = whole_start_s(lab, out / "first")
    say(f"seed {seed}; a launch takes {took:.1f} s here")
    wrong = 0
    for kind in (kind for kind in KINDS if only in ("", kind.name)):
        came: dict[str, int] = {}
        for number in range(each):
            chosen = random.Random(f"{seed + number} {kind.name}")
            after_s = chosen.uniform(0.0, 1.25 * took)
            home = out / f"{kind.name}-{seed + number}"
            case = Case(lab, kind, home)
            try:
                words = case.run(after_s)
            except (Wrong, AssertionError) as error:
                wrong += 1
                words = "WRONG"
                (home / "wrong.txt").write_text(f"after {after_s:.2f} s\n{error}\n\n{case.output}\n")
                again = f"{kind.name} --seed {seed + number}, after {after_s:.2f} s"
                say(f"{again}: {str(error)[:400]}; kept in {home}")
            else:
                shutil.rmtree(home, ignore_errors=True)
            came[words] = came.get(words, 0) + 1
        say(f"{kind.name}: " + ", ".join(f"{count} {words}" for words, count in sorted(came.items())))
    return wrong


def say(text: str) -> None:
    """Tell it now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Soak; return 1 when anything was not as documented."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.soak", description=__doc__)
    parser.add_argument("--each", type=int, default=100, help="launches of each kind (100)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", default="", choices=["", *(kind.name for kind in KINDS)])
    parser.add_argument("--out", type=Path, help="where what is wrong is kept")
    options = parser.parse_args(arguments)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # `make soak &` and nohup have clients ignore them
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if problem := missing():
        say(problem)
        return 1
    out = options.out or Path(tempfile.mkdtemp(prefix="soak-"))
    with Lab.up(2, out / "lab") as lab:
        wrong = soak(lab, out, options.seed, options.each, options.only)
    say(f"{wrong} wrong" + (f"; kept in {out}" if wrong else ""))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
