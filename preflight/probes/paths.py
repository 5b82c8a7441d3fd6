"""Folders of a run: a network file system may hang on any of them."""

import os
import re

from .fact import Emit, Json, missing, read_fact, start_thread
from .files import read_text_or
from .request import ProbeRequest, list_paths, resolve_path


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit facts.PathFacts for each asked path, each in a thread of its own."""
    mounts = _mount_points()
    threads, later = [], []
    for role, path in list_paths(ask).items():
        emit("paths", role, "mount", _mount_of(resolve_path(path), mounts))

        def look_at(role: str = role, path: str = path) -> None:
            emit("paths", role, "facts", read_fact(lambda: _path_facts(role.partition(":")[0], path, mounts)))

        try:
            threads.append(start_thread(look_at))
        except RuntimeError:  # no thread is left to this user: that says nothing about the path
            later.append(look_at)
    for look in later:
        look()
    for thread in threads:
        thread.acquire()
    if not threads and not later:
        emit("paths", {})


def _mount_points() -> list[tuple[str, str, str]]:
    """Return (folder, file system, source) of each mount, in mount order."""
    found = []
    for line in read_text_or("/proc/self/mountinfo").split("\n"):
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(kind) > 1:  # of very many mounts the last line may be cut
            found.append((_unescape(fields[4]), kind[0], _unescape(kind[1])))
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _mount_of(path: str, mounts: list[tuple[str, str, str]]) -> Json:
    """Return file system and source of the deepest, latest mount over `path`."""
    best = ("", "", "")
    for mount in mounts:
        folder = mount[0].rstrip("/") + "/"
        if (path + "/").startswith(folder) and len(mount[0]) >= len(best[0]):
            best = mount
    unknown = missing("no mount covers it", "not-found")
    return {"resolved": path, "filesystem": best[1] or unknown, "source": best[2] or unknown}


def _exists(path: str) -> bool:
    """Say whether a path exists; os.path.exists takes every error for an absence."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _path_facts(role: str, path: str, mounts: list[tuple[str, str, str]]) -> Json:
    """Return facts.PathFacts; may hang for as long as the file system does."""
    resolved = os.path.realpath(resolve_path(path))
    exists = read_fact(lambda: _exists(resolved))
    nearest = resolved
    while not os.path.exists(nearest) and nearest != "/":
        nearest = os.path.dirname(nearest)
    # All others are to be directories, which a plain file in the way does not allow even to root.
    is_wanted = os.path.isdir(nearest) or (role in ("script", "input") and nearest == resolved)
    in_way = "" if is_wanted else nearest
    enterable = not os.path.isdir(nearest) or os.access(nearest, os.X_OK)
    room = read_fact(lambda: os.statvfs(nearest))
    lacking = isinstance(room, dict)
    inodes = missing("the file system does not count inodes", "not-supported")
    reserve = os.geteuid() == 0  # what a file system keeps back is root's to use
    if not lacking and room.f_files:
        left = room.f_ffree if reserve else room.f_favail
        inodes = max(0.01 if left else 0.0, round(100.0 * left / room.f_files, 2))  # 0: there is none
    return {
        "role": role,
        "path": path,
        **_mount_of(resolved, mounts),
        "exists": exists,
        "writable": not in_way and enterable and os.access(nearest, os.W_OK),
        "file_in_way": in_way,
        "enterable": enterable,
        "free_mib": room if lacking else (room.f_bfree if reserve else room.f_bavail) * room.f_frsize >> 20,
        # Rounded up: 0 is a file system without a limit, not one of less than 1 MiB.
        "total_mib": room if lacking else -(-room.f_blocks * room.f_frsize >> 20),
        "free_inodes_percent": room if lacking else inodes,
        "read_only": not lacking and bool(room.f_flag & os.ST_RDONLY),
    }
