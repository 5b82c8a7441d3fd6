"""fetch: send the files of a run that the other side does not have yet."""

import errno
import hashlib
import itertools
import os
import stat
import time
from typing import Any, Iterable, Iterator

from ..files import CHUNK, read_json, write_all
from ..protocol import encode_frame, send_header
from ..run_dir import INTERNAL_FILES, RESTART_FOLDER, SPEC, read_state
from ._fetch_paths import OUTPUT, find_chosen, run_places
from ._logs import GROWING, is_cut_at

BEAT_S = 5.0  # the other side gives up after a minute without a byte


def serve(run_dir: str, request: dict[str, Any]) -> int:
    """Send how many bytes the other side lacks, and those, as frames of file, offset, total size, mtime_ns;
    then the end.

    `have` is {name: [size, mtime_ns]} of complete files, `part` {key: [[total size, mtime_ns, bytes
    received]]} of partial ones by the keys of their names; a log, which only grows, is sent from the size
    already received, or from its start where another process has cut it since, as `ends` shows: {name: the
    last bytes received, in hexadecimal}. `paths` are what alone is wanted of the output, as `find_chosen`
    takes them.
    """
    send_header({"state": read_state(run_dir), "t": time.time()})
    places = run_places(read_json(os.path.join(run_dir, SPEC)) or {}, run_dir)
    skipped: list[list[str]] = []
    absent: list[str] = []
    if request.get("paths"):
        found = list_chosen_files(places, request["paths"], skipped, absent)
    else:
        found = list_files_below(run_dir, "")
        if request.get("output") and OUTPUT in places:
            found = itertools.chain(found, list_files_below(places[OUTPUT], OUTPUT))
    for name, path in count_files(found, request):
        try:
            send_file(name, path, request)
        except (OSError, UnicodeError) as error:
            skipped.append([name.encode("utf-8", "replace").decode(), str(error)])
    write_all(
        1, encode_frame({"end": read_state(run_dir), "skipped": skipped, "absent": absent, "t": time.time()})
    )
    return 0


def count_files(found: Iterable[tuple[str, str]], request: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the files; send how many bytes of them the other side lacks, in parts where that takes long."""
    every, lacks, sent = [], 0, time.monotonic()
    for name, path in found:
        every.append((name, path))
        lacks += count_lacking(name, path, request)
        if time.monotonic() - sent >= BEAT_S:  # a million files on a slow disk
            write_all(1, encode_frame({"lacks": lacks}))
            lacks, sent = 0, time.monotonic()
    write_all(1, encode_frame({"lacks": lacks}))
    return every


def list_chosen_files(
    places: dict[str, str], paths: list[str], skipped: list[list[str]], absent: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of files that the paths name; fill `skipped` with reasons, and `absent`."""
    for wanted in paths:
        try:
            found = list(find_chosen(places, wanted))
            if not found:
                absent.append(wanted)
            for name, path in found:
                if os.path.isdir(path):
                    yield from list_files_below(path, name if name.endswith("/") else name + "/")
                else:
                    yield name, path
        except OSError as error:
            skipped.append([wanted, str(error)])


def list_files_below(top: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of every file; symlinks are skipped, so none leads out of the directory."""
    for place, directories, names in os.walk(top):
        left_out = ("__pycache__", *(() if prefix or place != top else (RESTART_FOLDER,)))
        directories[:] = sorted(name for name in directories if name not in left_out)
        for name in sorted(names):
            path = os.path.join(place, name)
            if (place != top or name not in INTERNAL_FILES or prefix) and not os.path.islink(path):
                yield prefix + os.path.relpath(path, top), path


def send_file(name: str, path: str, request: dict[str, Any]) -> None:
    """Send one file from where the other side's copy ends. Raises OSError when it cannot be read."""
    name.encode()  # a name that is not valid UTF-8 cannot be sent in JSON
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return
        grows = is_growing(name)
        have = request.get("have", {}).get(name)
        end = request.get("ends", {}).get(name, "") if GROWING.fullmatch(name) else ""
        if have and grows and name.endswith(".log") and is_cut_at(fd, have[0], bytes.fromhex(end)):
            send_from(fd, 0, name, found, {"grows": True, "cut": True})
            return
        offset = find_offset(name, found, request, grows=grows)
        if offset is not None:
            send_from(fd, offset, name, found, {"grows": grows})
    finally:
        os.close(fd)


def count_lacking(name: str, path: str, request: dict[str, Any]) -> int:
    """Return how many bytes of a file the other side lacks, as far as its size and time show."""
    try:
        found = os.lstat(path)
        offset = find_offset(name, found, request, grows=is_growing(name))
    except (OSError, UnicodeError):  # it is reported when it is sent
        return 0
    return 0 if offset is None else found.st_size - offset


def is_growing(name: str) -> bool:
    """Return whether a file only grows: a log or a record of the run, never one of its output."""
    return "/" not in name and name.endswith((".log", ".jsonl"))


def find_offset(name: str, found: os.stat_result, request: dict[str, Any], *, grows: bool) -> int | None:
    """Return the offset from which the other side lacks a file, None when it has all of it."""
    have, parts = request.get("have", {}).get(name), request.get("part", {}).get(make_key(name), [])
    size, mtime = found.st_size, found.st_mtime_ns
    if have and (have == [size, mtime] or (grows and have[0] >= size)):
        return None
    if have and grows:
        return int(have[0])
    return max((int(part[2]) for part in parts if part[:2] == [size, mtime]), default=0)


def make_key(name: str) -> str:
    """Return a key for a name that may be too long to be a part of another one."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def send_from(fd: int, offset: int, name: str, found: os.stat_result, kind: dict[str, bool]) -> None:
    """Send the rest of a file, in one frame at least. Raises OSError when the file shrinks meanwhile.

    `kind`: whether it `grows`, and whether it was `cut` after the other side has read more of it.
    """
    size, mtime = found.st_size, found.st_mtime_ns
    while True:
        data = os.pread(fd, min(CHUNK, size - offset), offset)
        header = {"file": name, "offset": offset, "whole": size, "mtime_ns": mtime, **kind}
        write_all(1, encode_frame({**header, "size": len(data)}, data))
        kind = {**kind, "cut": False}
        offset += len(data)
        if offset >= size:
            return
        if not data:
            raise OSError(errno.EIO, "became shorter while it was read")
