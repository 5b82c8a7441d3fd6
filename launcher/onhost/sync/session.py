"""One sync on this host, from its start to its cleanup."""

import os
import time
from contextlib import ExitStack, suppress
from typing import Any, BinaryIO

from .errors import SyncRefused
from .install import copy_entry, install_entry, set_mode
from .lock import read_boot_id, remove_stale, take_lock
from .safe_dir import STATE, SafeDirectory, split_path
from .staging import Staging, remove_tree
from .target_state import TargetState, TreeEntry, hash_tree

_MOST_SOURCE = 65536  # lines, each a name of a machine and a path; the newest is the first
_KEPT_SOURCES = 8
RUN_ID = b"GPULAUNCH_RUN_ID="


class ReceiveSession:
    """Open target directory with a nonce that other hosts can see; at its end only committed files remain."""

    def __init__(self, target: str, nonce: str) -> None:
        if not nonce.isalnum():
            raise SyncRefused("the nonce is not a name")
        self.directory = SafeDirectory(target)
        self._nonce = nonce
        self._ends = ExitStack()
        self._ends.callback(self._forget_nonce)
        try:
            self.directory.make_file("nonce-" + nonce, read_boot_id().encode())
        except OSError:
            self.close()  # a full disk takes its name, and nothing in it
            raise
        with suppress(FileExistsError):
            self.directory.make_file(".gitignore", b"*\n")  # hides the sync's directory from git

    def list_seen(self, nonces: list[str]) -> list[str]:
        """Return the visible nonces, each by its name: a listing of a file server may be stale."""
        found = []
        for nonce in nonces:
            with suppress(OSError):
                os.stat("nonce-" + str(nonce), dir_fd=self.directory.state, follow_symlinks=False)
                found.append(nonce)
        return found

    def stamp(self, path: str) -> list[int] | None:
        """Return size and time of a path as a process on this host sees it, None if it sees none."""
        with suppress(OSError):
            is_outside = path.startswith(("/", "../"))
            place = os.path.join(self.directory.root, path)
            found = os.stat(place) if is_outside else self.directory.stat(split_path(path))
            return None if found is None else [found.st_size, found.st_mtime_ns // 10**9]
        return None

    def begin(self, entries: list[TreeEntry], *, delete: bool) -> "SyncSession":
        """Take the lock; return the sync of these entries. Raises SyncRefused if none can be written."""
        refuse_overlaps([entry.path for entry in entries])
        lock, is_locked = take_lock(self.directory)
        self._ends.callback(os.close, lock)
        remove_stale(self.directory, is_locked=is_locked)
        incoming = Staging(self.directory, self._nonce)
        self._ends.callback(remove_tree, incoming.path)
        return SyncSession(TargetState(self.directory, incoming.now_ns), incoming, entries, delete=delete)

    def close(self) -> None:
        """Remove the files of this sync that are only temporary."""
        self._ends.close()

    def _forget_nonce(self) -> None:
        with suppress(OSError):
            os.unlink("nonce-" + self._nonce, dir_fd=self.directory.state)


class SyncSession:
    """Sync of one tree: missing entries are staged, then all of them are installed."""

    def __init__(
        self, here: TargetState, incoming: Staging, entries: list[TreeEntry], *, delete: bool
    ) -> None:
        self._here = here
        self._incoming = incoming
        self._entries = entries
        self._delete = delete
        self.need = [index for index, entry in enumerate(entries) if not here.has(entry)]
        self._wanted = set(self.need)
        here.directory.refuse_full(sum(entries[index].size for index in self.need))

    def put(self, index: int, stream: BinaryIO) -> None:
        """Stage one needed entry."""
        if index not in self._wanted or index in self._incoming.staged:
            raise SyncRefused("a file came that was not asked for; nothing was written")
        self._incoming.put(index, self._entries[index], stream)

    def adopt(self, indices: list[int]) -> list[int]:
        """Stage what rsync has delivered; return the complete entries. Others can still be put."""
        wanted = [index for index in indices if index in self._wanted]
        return [index for index in wanted if self._incoming.adopt(index, self._entries[index])]

    def count_changes(self) -> int:
        """Return how many files the commit replaces or deletes. Raises SyncRefused when some are missing."""
        if self._incoming.staged != self._wanted:
            raise SyncRefused("not every file came; nothing was written")
        return len(self._wanted) + (len(list_stale(self._here, self._paths())) if self._delete else 0)

    def _paths(self) -> set[str]:
        return {entry.path for entry in self._entries}

    def commit(self, source: str) -> dict[str, Any]:
        """Install all entries, each by one rename; `source` says whose tree they are."""
        self.count_changes()
        here, needed = self._here, [(index, self._entries[index]) for index in self.need]
        kept_in = os.path.join(here.directory.root, STATE, "replaced", self._when())
        kept = [entry.path for _, entry in needed if back_up_file(here, entry.path, kept_in)]
        for _, entry in needed:  # recorded first: after a crash, files from a sync are still known as such
            here.record.add(entry.path, entry.kind + entry.content, None, ours=True)
        if needed:
            here.record.save()
        here.directory.note("tree.sha256", hash_tree(self._entries).encode())
        former = self._replace_source(source)
        for index, entry in needed:
            install_entry(here, self._incoming, index, entry.path)
        for path, mode, found in here.modes:
            set_mode(here, path, mode, found)
        dropped = drop_stale(here, self._paths(), delete=self._delete)
        now_ns = self._incoming.read_clock() if needed else 0
        for index, entry in needed:
            if index in self._incoming.written_ns:
                here.trust(entry, self._incoming.device, self._incoming.written_ns[index], now_ns)
        here.record.save()
        return {"written": len(self.need), "kept": kept, "kept_in": kept_in, "former": former, **dropped}

    def _replace_source(self, source: str) -> str:
        """Note whose tree the directory has; return whose it had, "" if unknown or if it had this one before.

        A project that two machines send in turn is named once for each: after that, its owner knows.
        """
        state, sources = self._here.directory, []
        with suppress(OSError):
            fd = os.open("source", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=state.state)
            with open(fd, "rb") as file:
                sources = file.read(_MOST_SOURCE).decode("utf-8", "replace").splitlines()
        source = " ".join(source.splitlines())
        if source and sources[:1] != [source]:
            known = [source, *(each for each in sources if each != source)][:_KEPT_SOURCES]
            state.note("source", "\n".join(known).encode("utf-8", "replace"))
        return sources[0] if sources and source not in sources else ""

    def _when(self) -> str:
        moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._incoming.now_ns // 10**9))
        return "%s-%s" % (moment, self._incoming.nonce[:6])


def refuse_overlaps(paths: list[str]) -> None:
    """Raise SyncRefused for a path that is repeated, is below another one, or may not be written."""
    known, fine = set(paths), {""}
    if len(known) != len(paths):
        raise SyncRefused("one path is named twice; nothing was written")
    for path in paths:
        split_path(path)
        above = path.rpartition("/")[0]
        while above not in fine:
            if above in known:
                raise SyncRefused("%r lies below a file or a link; nothing was written" % path)
            fine.add(above)
            above = above.rpartition("/")[0]


def list_live_runs(root: str) -> list[str]:
    """Return the ids of runs with a process in the directory or below it, as far as this user may look.

    What these open later, and what their restarts start, then lies in it.
    """
    found: set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            cwd = os.readlink("/proc/%s/cwd" % pid)
            if cwd != root and not cwd.startswith(root.rstrip("/") + "/"):
                continue
            with open("/proc/%s/environ" % pid, "rb") as stream:
                items = stream.read().split(b"\0")
        except OSError:
            continue  # another user's, or it has ended
        found.update(
            item[len(RUN_ID) :].decode("ascii", "replace") for item in items if item.startswith(RUN_ID)
        )
    return sorted(found - {""})


def back_up_file(here: TargetState, path: str, kept_in: str) -> bool:
    """Copy a file that is about to be replaced, unless a sync wrote it; return whether one existed."""
    current = here.identity(path)
    if current in ("", "d") or here.was_synced(path):
        return False
    root = here.directory.root
    flat = os.path.join(kept_in, path)
    os.makedirs(os.path.dirname(flat), exist_ok=True)
    if current == "?":
        raise SyncRefused("%s in %s is not a regular file" % (path, root), "move it away on the host")
    copy_entry(os.path.join(root, path), flat)
    return True


def list_stale(here: TargetState, present: set[str]) -> list[str]:
    """Return the files of former syncs that the tree no longer has, and that are as a sync wrote them."""
    rows = sorted(here.record.rows.items())
    return [path for path, row in rows if path not in present and row[5] and here.identity(path) == row[0]]


def drop_stale(here: TargetState, present: set[str], *, delete: bool) -> dict[str, list[str]]:
    """Delete stale files if requested, except edited ones; return the result for each path."""
    found: dict[str, list[str]] = {"deleted": [], "stale": [], "edited": []}
    for path, row in sorted(here.record.rows.items()):
        if path in present:
            continue
        current = here.identity(path)
        if not row[5] or current in ("", "d"):
            here.record.remove(path)
        elif current != row[0]:
            found["edited"].append(path)
        elif delete:
            here.directory.unlink(path.split("/"))
            here.record.remove(path)
            found["deleted"].append(path)
        else:
            found["stale"].append(path)
    if found["deleted"]:
        drop_empty_directories(here)
    return found


def drop_empty_directories(here: TargetState) -> None:
    """Remove empty directories that syncs have made."""
    for path in sorted(set(here.record.dirs), key=len, reverse=True):
        parts = path.split("/")
        with suppress(OSError):
            fd = here.directory.parent(parts)
            if fd is not None:
                os.rmdir(parts[-1], dir_fd=fd)
                here.directory.forget()
            here.record.dirs = [other for other in here.record.dirs if other != path]
