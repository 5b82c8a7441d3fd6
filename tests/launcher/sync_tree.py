"""A tree here and directories "there", synced through the local transport as a launch does it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.sync.host import SyncClient
from launcher.sync.sync import HostSync, SyncJob, send_tree
from launcher.sync.tree import SourceTree, read_tree
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection

ENTRY = HostEntry(name="titan", python=sys.executable)


def opener(entry: HostEntry) -> Connection:
    return LocalConnection(Endpoint(entry.name, "local", ""))


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def listing(root: Path) -> dict[str, str]:
    """Return every file below a directory but the sync's own, with its text; links as "-> target"."""
    return {
        path.relative_to(root).as_posix(): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*"))
        if (path.is_symlink() or path.is_file()) and ".gpulaunch-sync" not in path.parts
    }


def sync(
    source: Path, target: Path, *, exclude: tuple[str, ...] = (), delete: bool = False, **others: Path
) -> dict[str, HostSync]:
    """Sync a tree to the directory of titan, and to those of other hosts by name."""
    targets = {ENTRY.name: str(target)} | {name: str(path) for name, path in others.items()}
    entries = [replace(ENTRY, name=name) for name in targets]
    tree = read_tree(source, exclude=exclude, max_mib=16)
    return send_tree(SyncJob(lambda: tree, targets, delete), entries, opener, lambda _: None)


def receiver(target: Path) -> SyncClient:
    """Return a receiver that has opened a directory."""
    found = SyncClient(opener(ENTRY), sys.executable)
    found.begin(str(target), "a" * 32)
    return found


def paths(tree: SourceTree) -> list[str]:
    return [entry.path for entry in tree.entries]


def read(root: Path, *exclude: str) -> SourceTree:
    return read_tree(root, exclude=exclude, max_mib=16)
