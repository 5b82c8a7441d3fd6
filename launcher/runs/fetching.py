"""Fetching a run: logs, records and output; each file whole or not there, each byte sent once."""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from launcher.errors import HostError
from launcher.inventory import HostEntry
from launcher.no_answer import last_lines
from launcher.report.text import one_line
from launcher.running import protocol
from launcher.running.connections import Open
from launcher.runs.asking import NotThere
from launcher.transports.base import Stream
from preflight.records import dataclass

SILENCE_S = 60.0
_POLL_S = 0.5
_PART = re.compile(r"\.(?P<name>.+)\.(?P<mtime>\d+)-(?P<size>\d+)\.part")


@dataclass(slots=True)
class Fetched:
    """What came from one host."""

    files: int = 0
    bytes: int = 0
    skipped: list[str] = field(default_factory=list)  # what could not be read there, each with its reason


class Receiver:
    """Writes what one host sends below a directory of ours. Names from the host never lead out of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fetched = Fetched()
        self._path = Path()
        self._fd = -1

    def wanted(self) -> dict[str, Any]:
        """Return what is here already, as mode fetch takes it."""
        have: dict[str, list[int]] = {}
        part: dict[str, list[list[int]]] = {}
        for path in sorted(self.directory.rglob("*")) if self.directory.is_dir() else ():
            if path.is_symlink() or not path.is_file():
                continue
            name, status = path.relative_to(self.directory).as_posix(), path.stat()
            begun = _PART.fullmatch(path.name)
            if begun is None:
                have[name] = [status.st_size, status.st_mtime_ns]
            else:
                whole = path.with_name(begun["name"]).relative_to(self.directory).as_posix()
                there = [int(begun["size"]), int(begun["mtime"]), status.st_size]
                part.setdefault(whole, []).append(there)
        return {"have": have, "part": part}

    def take(self, header: Mapping[str, Any], data: bytes) -> None:
        """Write one frame. Raises OSError when this disk is full, HostError on a name that leads away."""
        name, offset, whole = str(header["file"]), int(header["offset"]), int(header["whole"])
        mtime = int(header["mtime_ns"])
        target = self._target(name)
        grows = bool(header["grows"])
        path = target if grows else target.with_name(f".{target.name}.{mtime}-{whole}.part")
        if path != self._path:
            self._open(path, begin=not grows and offset == 0)
        view = memoryview(data)
        while view:
            try:
                written = os.pwrite(self._fd, view, offset)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(target)) from None
            view, offset = view[written:], offset + written
        self.fetched.bytes += len(data)
        if offset >= whole:
            self._finish(target, mtime, grows=grows)

    def close(self) -> None:
        """Close what is open; what was begun stays, to be gone on with."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path = -1, Path()

    def _target(self, name: str) -> Path:
        pieces = name.split("/")
        if any(piece in ("", ".", "..") or "\0" in piece for piece in pieces):
            raise HostError(
                self.directory.name, f"it sent a file called {one_line(name)!r}; nothing was written"
            )
        place = self.directory
        for piece in pieces[:-1]:
            place = place / piece
            if place.is_symlink():
                raise HostError(
                    self.directory.name, f"{place} is a link here; what came was not written through it"
                )
        return place / pieces[-1]

    def _open(self, path: Path, *, begin: bool) -> None:
        self.close()
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if begin else 0)
        self._fd, self._path = os.open(path, flags, 0o644), path

    def _finish(self, target: Path, mtime: int, *, grows: bool) -> None:
        if not grows:
            os.fsync(self._fd)
            os.utime(self._fd, ns=(mtime, mtime))
            self._path.replace(target)
            for old in target.parent.glob(f".{_glob(target.name)}.*.part"):
                if _PART.fullmatch(old.name):
                    old.unlink()
        self.fetched.files += 1
        self.close()


def fetch_host(
    run_id: str,
    entry: HostEntry,
    open_entry: Open,
    receiver: Receiver,
    *,
    output: bool,
) -> Fetched:
    """Fetch one node's files. Raises HostError when it breaks; call again to go on."""
    request = {"mode": "fetch", "run_id": run_id, "output": output, **receiver.wanted()}
    try:
        with open_entry(entry) as connection:
            stream = connection.start(protocol.command(entry.python, "fetch", run_id))
            try:
                stream.write(protocol.request(request))
                _receive(entry.name, stream, receiver)
            finally:
                stream.close()
    finally:
        receiver.close()
    return receiver.fetched


def _receive(host: str, stream: Stream, receiver: Receiver) -> None:
    reader = protocol.Reader()
    answered, stderr = False, b""
    heard = time.monotonic()
    while True:
        data = stream.read(_POLL_S)
        stderr = (stderr + stream.read_stderr())[-protocol.NOISE_KEPT :]
        heard = heard if data is None else time.monotonic()
        if data is None and time.monotonic() - heard < SILENCE_S:
            continue
        if data is None:
            raise HostError(
                host, f"nothing came for {SILENCE_S:g} s", "fetch again: it goes on where it ended"
            )
        if not data:
            said = last_lines(stderr + stream.read_stderr() or reader.noise)
            raise HostError(host, f"the connection ended: {said}", "fetch again: it goes on where it ended")
        try:
            for frame in reader.feed(data):
                if not answered:
                    answered = True
                    if "refused" in frame.header:
                        raise NotThere(f"{host}: {one_line(str(frame.header['refused']), 300)}")
                elif "file" in frame.header:
                    receiver.take(frame.header, frame.data)
                elif "end" in frame.header:
                    skipped = frame.header.get("skipped") or ()
                    receiver.fetched.skipped += [f"{name}: {why}" for name, why in skipped]
                    return
        except (protocol.Garbled, KeyError, TypeError, ValueError) as error:
            raise HostError(host, f"what it sent cannot be read: {error!r}") from None


def _glob(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
