"""A sync of a working tree beside rsync of the same tree, over a plain sshd on loopback.

    python -m bench.sync_tree [--rounds N] [--files N] [--megabytes N]

5,000 files of source code and 200 MB of random bytes, three times in each round, turn by turn with
`rsync --archive --compress` over ssh: to an empty directory, again with nothing changed, and again with one
file changed. Ours reads the tree, compares it by content and puts it in place; a new connection each time for
both. Targets: 1.2, 1.0 and 1.0 of rsync's wall time. Medians of the ratios within a round.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from bench.common import ROOT, Cost, Target, cost_of_command, tell
from bench.loopback import Loopback
from bench.sync_carriers import cpu_s
from launcher.config.inventory_reader import load_inventory
from launcher.sync.sync import SyncJob, send_tree
from launcher.sync.tree import read_tree
from launcher.transports.base import OpenOptions
from launcher.transports.ssh.endpoint import build_opener

LIMITS = {"first": 1.2, "unchanged": 1.0, "one file changed": 1.0}
_LARGE = 20
_SETTLED_S = 2.5  # a file changed just now is hashed again by whoever remembers hashes


@dataclass(frozen=True, slots=True)
class Sides:
    """One tree, and the two directories that receive it."""

    loopback: Loopback
    root: Path

    def ours(self, target: Path) -> Cost:
        """Sync the tree with gpulaunch."""
        inventory = load_inventory(self.loopback.inventory)
        entries = [replace(each, python=sys.executable) for each in inventory.resolve(self.loopback.names)]
        opener = build_opener(inventory, OpenOptions(), self.loopback.ssh_config)
        started, before = time.monotonic(), cpu_s()
        job = SyncJob(
            lambda: read_tree(self.root, exclude=(), max_mib=4096), {self.loopback.names[0]: str(target)}
        )
        send_tree(job, entries, opener, lambda _: None)
        return Cost(cpu_s() - before, time.monotonic() - started)

    def theirs(self, target: Path) -> Cost:
        """Sync the tree with rsync."""
        rsh = f"ssh -F {self.loopback.ssh_config}"
        there = f"{self.loopback.names[0]}:{target}/"
        return cost_of_command(["rsync", "--archive", "--compress", f"--rsh={rsh}", f"{self.root}/", there])


def write_tree(root: Path, files: int, megabytes: int) -> None:
    """Write the files of source code, each different, and the bytes that cannot be compressed."""
    texts = [path.read_bytes() for path in sorted((ROOT / "launcher").rglob("*.py"))]
    for number in range(files):
        path = root / f"package{number % 50}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"# %d\n" % number + texts[number % len(texts)])
    for number in range(_LARGE):
        (root / f"{number}.bin").write_bytes(os.urandom(megabytes * 10**6 // _LARGE))


def one_round(sides: Sides, number: int) -> dict[str, tuple[Cost, Cost]]:
    """Return (rsync, ours) of each of the three syncs."""
    folder = sides.loopback.folder
    theirs, ours = folder / f"rsync{number}", folder / f"ours{number}"
    found = {}
    for name in LIMITS:
        if name == "one file changed":
            (sides.root / "package1/module1.py").write_text(f"# {number}\n{'x = 1' * 1000}\n")
        found[name] = (sides.theirs(theirs), sides.ours(ours))
        time.sleep(_SETTLED_S if name == "first" else 0.0)
    shutil.rmtree(theirs)
    shutil.rmtree(ours)
    return found


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--megabytes", type=int, default=200)
    arguments = parser.parse_args()
    if shutil.which("rsync") is None:
        sys.exit("this machine has no rsync")
    with tempfile.TemporaryDirectory() as folder, Loopback.up(Path(folder), 1) as loopback:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        root = loopback.folder / "tree"
        root.mkdir()
        write_tree(root, arguments.files, arguments.megabytes)
        rounds = [one_round(Sides(loopback, root), number) for number in range(arguments.rounds)]
    targets = []
    for name, limit in LIMITS.items():
        pairs = [each[name] for each in rounds]
        for side, costs in zip(("rsync", "ours"), zip(*pairs, strict=True), strict=True):
            wall, cpu = statistics.median(c.wall_s for c in costs), statistics.median(c.cpu_s for c in costs)
            print(f"{name:17} {side:6} {wall:6.2f} s   {cpu:6.2f} s CPU of the client")
        ratio = statistics.median(ours.wall_s / theirs.wall_s for theirs, ours in pairs)
        targets.append(Target(f"sync of {arguments.files} files, {name}, to rsync", ratio, limit))
    return tell(targets)


if __name__ == "__main__":
    sys.exit(main())
