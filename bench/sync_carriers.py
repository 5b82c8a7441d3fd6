"""The two carriers of a sync side by side, over a plain sshd on loopback: rsync, and gpulaunch's own.

    python -m bench.sync_carriers [--rounds N]

5,000 files of source code, and 200 MB of random bytes in twenty files; both to an empty directory. Target:
rsync takes no longer than our own carrier, for otherwise there would be no reason to keep it.
"""

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.common import ROOT, Cost, Target, side_by_side, tell
from bench.loopback import Loopback
from launcher.config.inventory_reader import load_inventory
from launcher.sync import rsync
from launcher.sync.sync import SyncJob, send_tree
from launcher.sync.tree import read_tree
from launcher.transports.base import OpenOptions
from launcher.transports.ssh.endpoint import build_opener

FILES = 5000
MIB = 1 << 20


def many_files(root: Path) -> None:
    """Write 5,000 files of source code, each different."""
    texts = [path.read_bytes() for path in sorted((ROOT / "launcher").rglob("*.py"))]
    for number in range(FILES):
        path = root / f"package{number % 50}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"# %d\n" % number + texts[number % len(texts)])


def large_files(root: Path) -> None:
    """Write 200 MB that cannot be compressed."""
    for number in range(20):
        (root / f"{number}.bin").write_bytes(os.urandom(10 * MIB))


def cpu_s() -> float:
    """Return the CPU time of this process and of the children it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def carried(loopback: Loopback, root: Path, *, by_rsync: bool) -> Cost:
    """Send a tree to an empty directory of the host; return what the client took."""
    inventory = load_inventory(loopback.inventory)
    entries = [replace(entry, python=sys.executable) for entry in inventory.resolve(loopback.names)]
    opener = build_opener(inventory, OpenOptions(), loopback.ssh_config)
    target = loopback.folder / "target"
    tree = read_tree(root, exclude=(), max_mib=4096)
    path = os.environ["PATH"]
    os.environ["PATH"] = path if by_rsync else ""
    try:
        started, before = time.monotonic(), cpu_s()
        found = send_tree(
            SyncJob(lambda: tree, {loopback.names[0]: str(target)}), entries, opener, lambda _: None
        )
        cost = Cost(cpu_s() - before, time.monotonic() - started)
    finally:
        os.environ["PATH"] = path
    if (found[loopback.names[0]].wire is not None) is not by_rsync:
        sys.exit("the files came by the other carrier")
    shutil.rmtree(target)
    return cost


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    if not rsync.has_rsync():
        sys.exit("this machine has no rsync")
    targets = []
    for name, write in (("5,000 files", many_files), ("200 MB", large_files)):
        with tempfile.TemporaryDirectory() as folder, Loopback.up(Path(folder), 1) as loopback:
            root = loopback.folder / "tree"
            root.mkdir()
            write(root)

            def way(root: Path, loopback: Loopback, *, by_rsync: bool) -> Callable[[], Cost]:
                return lambda: carried(loopback, root, by_rsync=by_rsync)

            ways = {
                "rsync": way(root, loopback, by_rsync=True),
                "our own": way(root, loopback, by_rsync=False),
            }
            costs = side_by_side(ways, rounds)
        for carrier, cost in costs.items():
            print(f"{name:12} {carrier:8} {cost.wall_s:6.2f} s   {cost.cpu_s:6.2f} s CPU of the client")
        ours, theirs = costs["our own"], costs["rsync"]
        targets.append(Target(f"{name}: rsync / our own, wall", theirs.wall_s / ours.wall_s, 1.0))
        targets.append(Target(f"{name}: rsync / our own, CPU", theirs.cpu_s / ours.cpu_s, 1.0))
    return tell(targets)


if __name__ == "__main__":
    sys.exit(main())
