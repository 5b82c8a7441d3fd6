"""Following one rank that prints 50 MB/s, with a terminal that takes it and with one that hardly does.

    python -m bench.follow_slow_terminal [--megabytes N]

A rank on a host behind a plain sshd on loopback prints numbered lines of 100 bytes at 50 MB/s. What the
client prints goes into a pipe: one that is read at once, and one of which 1 MB/s is read for as long as the
rank prints, and the rest afterwards. Targets: no line lost, torn or twice; the rank takes no longer (it notes
its own time, of which the shorter of two counts); twice the output takes no more memory of the client.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.common import Target, as_installed, tell
from bench.follow_output import PAD, Taken, count, peak_kib
from bench.loopback import Loopback
from launcher.rundir.run_id import make_run_id

RATE = 50e6
SLOW_RATE = 1e6
ROUNDS = 2
_PIECE = 1 << 16
_LIMIT_S = 300.0
PRINTER = f"""
import json, os, sys, time
lines, notes = int(sys.argv[1]), sys.argv[2]
began = time.monotonic()
for start in range(0, lines, 320):
    time.sleep(max(0.0, began + start * 100 / {RATE} - time.monotonic()))
    text = "".join("rank 00 line %07d {"x" * PAD}\\n" % n for n in range(start, min(start + 320, lines)))
    data = text.encode()
    while data:
        data = data[os.write(1, data):]
with open(notes + ".new", "w") as file:
    json.dump(time.monotonic() - began, file)
os.rename(notes + ".new", notes)
"""


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of one run, and the time in s that the rank took for its output."""

    taken: Taken
    rank_s: float


def follow(loopback: Loopback, megabytes: int, *, is_slow: bool) -> Followed:
    """Launch the rank, follow it through a pipe, count its lines."""
    folder = loopback.folder
    notes, lines = folder / "notes", megabytes * 10_000
    notes.unlink(missing_ok=True)
    script = PRINTER.replace("sys.argv[1]", repr(str(lines))).replace("sys.argv[2]", repr(str(notes)))
    document = {
        "inventory": str(loopback.inventory),
        "hosts": loopback.names[:1],
        "ranks": 1,
        "claims": False,
    }
    document |= {"run_id": make_run_id("bench"), "detach": False, "script": script}
    (folder / "client.json").write_text(json.dumps(document))
    argv = [sys.executable, "-m", "tests.lab.fault_client", str(folder / "client.json")]
    env = {**as_installed(folder / "compiled"), "HOME": str(folder), "XDG_STATE_HOME": ""}
    errors = folder / "errors"
    with errors.open("wb") as stderr:
        client = subprocess.Popen(argv, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=stderr)
    began = time.monotonic()
    peak = _read(client, folder / "output", notes if is_slow else None)
    wall_s = time.monotonic() - began
    if client.wait() or not notes.exists():
        sys.exit(f"the client ended with {client.returncode}: {errors.read_text()[-1000:]}")
    seen, torn = count(folder / "output")
    twice = seen.total() - len(seen)
    taken = Taken(len(seen) * 100 / 1e6 / wall_s, lines - len(seen), torn, twice, peak / 1024)
    return Followed(taken, float(notes.read_text()))


def _read(client: "subprocess.Popen[bytes]", target: Path, until: Path | None) -> int:
    """Copy what it prints to a file, slowly until `until` exists; return its largest memory in KiB."""
    assert client.stdout is not None
    peak, deadline = 0, time.monotonic() + _LIMIT_S
    with target.open("wb") as output:
        while data := os.read(client.stdout.fileno(), _PIECE):
            output.write(data)
            peak = peak_kib(client.pid) or peak
            if time.monotonic() > deadline:
                client.kill()
                sys.exit(f"the run did not end within {_LIMIT_S:g} s")
            if until is not None and not until.exists():
                time.sleep(len(data) / SLOW_RATE)
    return peak


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as folder:
        settings = (f"SetEnv HOME={folder} XDG_STATE_HOME={folder}/state",)
        with Loopback.up(Path(folder), 1, options=settings) as loopback:
            inventory = f"hosts:\n  {loopback.names[0]}: {{python: {sys.executable}}}\n"
            loopback.inventory.write_text(inventory)
            (loopback.folder / ".ssh").mkdir()
            (loopback.folder / ".ssh/config").write_text(loopback.ssh_config.read_text())
            half = follow(loopback, megabytes // 2, is_slow=True)
            rounds = [
                (follow(loopback, megabytes, is_slow=False), follow(loopback, megabytes, is_slow=True))
                for _ in range(ROUNDS)
            ]
    runs = [("slow, half of it", half)]
    for one, other in rounds:
        runs += [("read at once", one), ("slow", other)]
    for name, each in runs:
        way = each.taken
        counts = f"{way.lost} lost, {way.torn} torn, {way.twice} twice"
        print(f"{name:17} rank {each.rank_s:5.1f} s  {counts}  client {way.client_mib:.0f} MiB")
    wrong = sum(each.taken.lost + each.taken.torn + each.taken.twice for _, each in runs)
    read, slow = (min(side, key=lambda each: each.rank_s) for side in zip(*rounds, strict=True))
    return tell(
        [
            Target("lines lost, torn or twice", float(wrong), 0.0),
            Target("the rank's time, slow terminal / one that is read", slow.rank_s / read.rank_s, 1.1),
            Target(
                "client memory, slow / half of the output", slow.taken.client_mib / half.taken.client_mib, 1.1
            ),
            Target("client memory, slow / read at once", slow.taken.client_mib / read.taken.client_mib, 1.25),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
