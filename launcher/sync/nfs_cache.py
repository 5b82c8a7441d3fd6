"""Hosts that share a directory with another one, or with the tree itself: they must see its content.

Clients of a file server keep names and times for a while (NFS: a minute), so a host may read an old file.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from launcher.errors import SyncFailed
from launcher.sync.host import SyncClient
from launcher.sync.tree import SourceTree

SEEN_WITHIN_S = 75.0  # NFS keeps a directory's names for 60 s, or longer if mounted so (acdirmax)
_AGAIN_S = 1.0

Stamp: TypeAlias = tuple[int, int] | None  # size and time (s) of a file; None: it does not exist


def collect_tree_stamps(tree: SourceTree) -> tuple[Stamp, ...]:
    """Return the stamps of the local tree."""
    stamps: list[Stamp] = []
    for entry in tree.entries:
        try:
            status = (tree.root / entry.path).lstat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_size, status.st_mtime_ns // 10**9))
    return tuple(stamps)


def await_sight(
    host: SyncClient,
    tree: SourceTree,
    expected: Callable[[], Sequence[Stamp]],
    owner: str,
    say: Callable[[str], None],
    *,
    within_s: float = SEEN_WITHIN_S,
) -> None:
    """Return once a host sees the tree as `expected`, which `owner` has reported. Raises SyncFailed."""
    paths = [entry.path for entry in tree.entries]
    deadline = time.monotonic() + within_s
    was_reported = False
    while True:
        seen, there = host.stamps(paths), expected()
        stale = [path for path, a, b in zip(paths, seen, there, strict=True) if a != b]
        if not stale:
            return
        if time.monotonic() > deadline:
            raise SyncFailed(
                f"{host.host} shares the directory of {owner} and has not seen its content for"
                f" {within_s:g} s: {len(stale)} of {len(paths)} files differ, as {stale[0]}",
                "mount it on that host with a shorter cache (NFS: actimeo), or give each host its own"
                " directory with sync.to",
            )
        if not was_reported:
            say(f"sync: {host.host} does not see yet what is new in the directory of {owner}; waiting")
            was_reported = True
        time.sleep(_AGAIN_S)
