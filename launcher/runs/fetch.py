"""Fetching a run: logs, records and output; each file complete or absent, each byte sent once."""

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import HostError, MalformedFacts, PathRefused
from launcher.follow import protocol
from launcher.local.safe_paths import join_below, open_below
from launcher.remote.connection_pool import OpenConnection
from launcher.rundir.log_cuts import add_cut, read_end, read_starts
from launcher.runs.request import RequestDenied
from launcher.text import one_line, tail_lines
from launcher.transports.base import Stream
from preflight import regex as re
from preflight.facts.json_codec import decode
from preflight.frozen import dataclass

IDLE_TIMEOUT_S = 60.0
_POLL_S = 0.5
_PART = re.compile(r"\.(?P<key>[0-9a-f]{32})\.(?P<mtime>-?\d{1,19})-(?P<size>\d{1,19})\.part")
_LARGEST = 1 << 62
_LOCAL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})
"""Of this machine, and so of every file; any other error is that of one file, and the rest is fetched."""


@dataclass(slots=True)
class FetchResult:
    """What came from one host."""

    files: int = 0
    bytes: int = 0
    # What could not be read on the host, each with its reason.
    skipped: list[str] = field(default_factory=list)
    absent: tuple[str, ...] = ()  # of the chosen paths, those that the host does not have


@dataclass(frozen=True, slots=True)
class _File:
    """A piece of a file, as a host announces it."""

    file: str
    offset: int
    whole: int
    mtime_ns: int
    grows: bool
    cut: bool = False  # on the host, since we have received of it


@dataclass(frozen=True, slots=True)
class _Report:
    """What a host says beside its files: how many bytes are to come, as far as it knows, and at the end."""

    lacks: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # what it could not read, and why
    absent: tuple[str, ...] = ()  # chosen paths that it does not have


class FileReceiver:
    """Writes what one host sends below a directory of ours. Names from the host never lead out of it."""

    def __init__(
        self, directory: Path, host: str = "", on_bytes: Callable[[int], object] = lambda _: None
    ) -> None:
        self.directory = directory
        self.fetched = FetchResult()
        self._on_bytes = on_bytes
        self._starts = dict(read_starts(directory.parent))
        self._host = host or directory.name
        self._part = ""  # the file that is open, as a name below the directory
        self._fd = -1
        self._passed_over: str | None = None

    def missing(self) -> dict[str, Any]:
        """Return what is local already, as mode fetch takes it."""
        have: dict[str, list[int]] = {}
        part: dict[str, list[list[int]]] = {}
        ends: dict[str, str] = {}
        for path in sorted(self.directory.rglob("*")) if self.directory.is_dir() else ():
            try:
                status = path.lstat()
            except FileNotFoundError:  # another fetch has just finished it
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            name = path.relative_to(self.directory).as_posix()
            begun = _PART.fullmatch(path.name)
            if begun is None:
                start = self._start(name)
                size = max(0, status.st_size - start)
                have[name] = [size, status.st_mtime_ns]
                if name.endswith(".log") and "/" not in name:
                    ends[name] = read_end(path, start, size).hex()
            else:
                there = [int(begun["size"]), int(begun["mtime"]), status.st_size]
                part.setdefault(begun["key"], []).append(there)
        return {"have": have, "part": part, "ends": ends}

    def _start(self, name: str) -> int:
        """Return where in a local file the bytes start that the host has of it now."""
        return self._starts.get(f"{self.directory.name}/{name}", 0)

    def write(self, header: Mapping[str, Any], data: bytes) -> None:
        """Write one frame. Raises OSError when this disk is full, HostError on what cannot be meant."""
        piece = self._read(header, len(data))
        if piece.file == self._passed_over:
            return
        try:
            self._write(piece, data)
        except PathRefused as error:
            self._pass_over(piece.file, error.message)
        except (BlockingIOError, FileNotFoundError):
            self._pass_over(piece.file, "another gpulaunch fetches it just now")
        except OSError as error:
            if error.errno in _LOCAL:
                where = str(self.directory / piece.file)
                raise OSError(error.errno, error.strerror, where) from None
            self._pass_over(piece.file, f"cannot be written locally: {error.strerror}")

    def close(self) -> None:
        """Close what is open; what was started stays, to be gone on with."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._part = -1, ""

    def _read(self, header: Mapping[str, Any], size: int) -> _File:
        try:
            piece = decode(_File, dict(header))
        except MalformedFacts as misfit:
            raise HostError(self._host, f"what it sent cannot be read: {one_line(misfit.message)}") from None
        end = piece.offset + size
        if not (0 <= piece.offset <= end <= piece.whole < _LARGEST and abs(piece.mtime_ns) < _LARGEST):
            raise HostError(self._host, f"it sent a part that {one_line(piece.file)!r} cannot have")
        return piece

    def _write(self, piece: _File, data: bytes) -> None:
        part = piece.file if piece.grows else _part_of(piece)
        join_below(self.directory, piece.file)
        if part != self._part:
            self.close()
            begin = os.O_CREAT if piece.grows or piece.offset == 0 else 0
            self._fd, self._part = open_below(self.directory, part, os.O_WRONLY | begin), part
            if not piece.grows:
                _hold(self._fd, self.directory / part)
                if begin:
                    os.truncate(self._fd, 0)
        size = os.fstat(self._fd).st_size
        start = self._start(piece.file) if piece.grows else 0
        if piece.grows and piece.cut:
            name = f"{self.directory.name}/{piece.file}"
            start = self._starts[name] = add_cut(self.directory.parent, name, start, size)
        view, offset = memoryview(data), start + piece.offset
        if offset > size:
            raise HostError(self._host, f"it left out a part of {one_line(piece.file)!r}")
        while view:
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written
        self.fetched.bytes += len(data)
        self._on_bytes(len(data))
        if offset >= start + piece.whole:
            self._finish(piece)

    def _finish(self, piece: _File) -> None:
        if not piece.grows:
            os.fsync(self._fd)
            os.utime(self._fd, ns=(piece.mtime_ns, piece.mtime_ns))
            target = join_below(self.directory, piece.file)
            join_below(self.directory, self._part).replace(target)
            for old in target.parent.glob(f".{_key(piece.file)}.*.part"):
                if _PART.fullmatch(old.name):
                    old.unlink(missing_ok=True)
        self.fetched.files += 1
        self.close()

    def _pass_over(self, name: str, why: str) -> None:
        self.close()
        self._passed_over = name
        self.fetched.skipped.append(f"{one_line(name)}: {why}")


def _hold(fd: int, path: Path) -> None:
    """Keep a started copy from other fetches, where the file system can.

    Raises BlockingIOError; FileNotFoundError, too, where another one has finished it since it was opened.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass  # this one cannot
    if not os.path.samestat(os.fstat(fd), path.stat()):
        raise BlockingIOError


def _key(name: str) -> str:
    """Return what stands for a file in its started copy's name: its own may have the greatest length."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _part_of(piece: _File) -> str:
    folder, slash, _ = piece.file.rpartition("/")
    return f"{folder}{slash}.{_key(piece.file)}.{piece.mtime_ns}-{piece.whole}.part"


def fetch_host(
    run_id: str,
    entry: HostEntry,
    open_entry: OpenConnection,
    receiver: FileReceiver,
    *,
    output: bool,
    paths: tuple[str, ...] = (),
    expect: Callable[[int], object] = lambda _: None,
) -> FetchResult:
    """Fetch one node's files, or what `paths` names. Raises HostError when it breaks; a call continues it.

    `expect` gets the number of bytes that are still to come, once the host has counted them.
    """
    chosen = {"paths": list(paths)} if paths else {}
    request = {"mode": "fetch", "run_id": run_id, "output": output, **chosen, **receiver.missing()}
    try:
        with open_entry(entry) as connection:
            stream = connection.start(protocol.build_supervisor_argv(entry.python, "fetch", run_id))
            try:
                stream.write(protocol.encode_request(request))
                _receive(entry.name, stream, receiver, expect)
            finally:
                stream.close()
    finally:
        receiver.close()
    return receiver.fetched


def _receive(host: str, stream: Stream, receiver: FileReceiver, expect: Callable[[int], object]) -> None:
    frames = _frames(host, stream)
    try:
        answer = next(frames).header
        if "refused" in answer:
            raise RequestDenied(host, answer["refused"])
        for frame in frames:
            if "lacks" in frame.header:
                expect(decode(_Report, dict(frame.header)).lacks)
            elif "file" in frame.header:
                receiver.write(frame.header, frame.data)
            elif "end" in frame.header:
                end = decode(_Report, dict(frame.header))
                receiver.fetched.skipped += [f"{name}: {why}" for name, why in end.skipped]
                receiver.fetched.absent = end.absent
                return
    except (protocol.ProtocolError, MalformedFacts) as error:
        raise HostError(host, f"what it sent cannot be read: {one_line(str(error))}") from None


def _frames(host: str, stream: Stream) -> Iterator[protocol.Frame]:
    """Yield what a host sends. Raises HostError where it falls silent or its program ends."""
    reader, stderr, heard = protocol.FrameReader(), b"", time.monotonic()
    again = "fetch again: it continues where it ended"
    while True:
        data = stream.read(_POLL_S)
        stderr = (stderr + stream.read_stderr())[-protocol.PREAMBLE_KEPT :]
        if data:
            heard = time.monotonic()
            yield from reader.feed(data)
        elif data is not None:
            said = tail_lines(stderr + stream.read_stderr() or reader.preamble)
            raise HostError(host, f"the connection ended: {said}", again)
        elif time.monotonic() - heard >= IDLE_TIMEOUT_S:
            raise HostError(host, f"nothing came for {IDLE_TIMEOUT_S:g} s", again)
