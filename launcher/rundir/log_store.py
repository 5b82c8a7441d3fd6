"""The logs of a run as local files, each byte at the offset it has on the host; last lines of each log."""

import errno
import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from launcher.errors import PathRefused, RunAborted
from launcher.local import safe_paths
from launcher.local.descriptors import is_exhausted, raise_descriptor_limit, read_descriptor_limit
from launcher.rundir.log_cuts import LOG_CUTS, add_cut, read_end, read_starts
from launcher.rundir.run_id import is_run_id
from launcher.text import name_first, one_line, sanitize
from preflight import regex as re

EVENTS = "events.jsonl"
EVENT_SCHEMA = "gpulaunch.event/1"
LAST_BYTES = 16 << 10
MAX_OPEN = 16384
"""Files at once, half of this process' descriptors at most: 1,000 hosts of 8 ranks have 9,000 logs, and
to open one for each write costs ten times as much as the write."""
_UNSAFE = re.compile(r"[^\w.@+-]")
_LONGEST_NAME = 160
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class LogStore:
    """Writes HOST/rank-N.log and HOST/launcher.log below a directory. Overlapping writes change nothing.

    A disk that fills up ends no run: from then on nothing is written locally, `failed` says why, and the
    hosts keep all.
    """

    def __init__(self, directory: Path, *, again: bool = False) -> None:
        """`again`: it may have been kept locally before; its past is not noted twice."""
        self.directory = directory
        self.failed = ""
        self._opened = time.time()
        self._noted = _texts(directory / EVENTS) if again else frozenset()
        self._files: dict[tuple[str, str], int] = {}  # open ones, the one not used for longest first
        self._sizes: dict[tuple[str, str], int] = {}
        self._tails: dict[tuple[str, str], bytes] = {}
        self._grown: set[tuple[str, str]] = set()  # since the last note
        self._most_open = 0
        self._starts: dict[tuple[str, str], int] = {}  # of the bytes that come now, after a cut
        self._newest: tuple[tuple[int, int], Mapping[str, int]] = ((0, 0), {})  # by the state of their file

    def begin(self) -> None:
        """Make the directory; a full disk is noted. Raises RunAborted or PathRefused where it cannot be."""
        try:
            safe_paths.make_directory(self.directory)
        except OSError as error:
            if error.errno not in _FULL:
                raise _unmade(self.directory, str(error.strerror)) from error
            self._fail(error)

    def store(self, name: str, text: str) -> None:
        """Keep a document beside the logs."""
        if self.failed:
            return
        try:
            safe_paths.write_below(self.directory, name, text)
        except (OSError, PathRefused) as error:
            self._fail(error)

    def write(self, host: str, log: str, offset: int, data: bytes) -> None:
        """Put bytes at their offset, unless another client has put those behind a cut in their place."""
        key = (host, log)
        self._tails[key] = (self._tails.get(key, b"") + data[-LAST_BYTES:])[-LAST_BYTES:]
        if self.failed:
            return
        start, newest = self._starts.get(key, 0), self._newest_starts().get(_name(*key), 0)
        if start <= offset and start < newest:
            data = data[: max(0, newest - offset)]
        try:
            self._put(key, offset, data)
        except (OSError, PathRefused) as error:
            self._fail(error)

    def _fail(self, error: OSError | PathRefused) -> None:
        if isinstance(error, PathRefused):
            self.failed = error.message
        else:
            self.failed = f"{error.strerror or error}: {error.filename or self.directory}"
        self.close()

    def _put(self, key: tuple[str, str], offset: int, data: bytes) -> None:
        fd = self._file(key)
        view = memoryview(data)
        while view:
            try:
                written = os.pwrite(fd, view, offset)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path(*key))) from None
            view, offset = view[written:], offset + written
        self._sizes[key] = max(self._sizes[key], offset)
        self._grown.add(key)

    def add_event(self, text: str, *, bad: bool = False, at: float | None = None) -> None:
        """Keep what was reported of the run, with the time and how long logs are by now (events.jsonl).

        Only logs that have grown since the last note are in it: of 8,000 ranks each says when it ends.
        `at`: when it happened. How long the logs were before this book was opened is not known.
        Only a report wants it, so what cannot be kept is not a reason to end a run.
        """
        past = at is not None and at < self._opened
        if self.failed:
            return
        if past and text in self._noted:
            return
        when = time.time() if at is None else at
        event = {"schema": EVENT_SCHEMA, "at": when, "text": text, "bad": bad}
        line = json.dumps({**event, "sizes": None if past else self._take_grown()})
        with suppress(OSError, PathRefused):
            fd = safe_paths.open_below(self.directory, EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(line + "\n")

    def _take_grown(self) -> dict[str, int]:
        grown, self._grown = self._grown, set()
        return {_name(*key): self._sizes[key] for key in sorted(grown)}

    def path(self, host: str, log: str) -> Path:
        """Return where a log lies. Raises PathRefused where a link lies in its way."""
        return safe_paths.join_below(self.directory, _name(host, log))

    def sizes(self, host: str, starts: Mapping[str, int]) -> dict[str, int]:
        """Return how much of what a host has of each log is local already."""
        folder = safe_paths.join_below(self.directory, make_safe_name(host))
        found = folder.glob("*.log") if folder.is_dir() else ()
        return {path.name: max(0, path.stat().st_size - starts.get(path.name, 0)) for path in found}

    def ends(self, host: str, sizes: Mapping[str, int], starts: Mapping[str, int]) -> dict[str, bytes]:
        """Return the last bytes that are local of what a host has of each log."""
        folder = safe_paths.join_below(self.directory, make_safe_name(host))
        return {log: read_end(folder / log, starts.get(log, 0), size) for log, size in sizes.items()}

    def starts(self, host: str) -> dict[str, int]:
        """Return where in the local file of a log the bytes start that its host has now, of cut logs."""
        found = {name.partition("/"): start for name, start in read_starts(self.directory).items()}
        known = {log: start for (folder, _, log), start in found.items() if folder == make_safe_name(host)}
        self._starts |= {(host, log): start for log, start in known.items()}
        return known

    def _newest_starts(self) -> Mapping[str, int]:
        try:
            found = (self.directory / LOG_CUTS).stat()
        except OSError:
            return {}
        state = (found.st_size, found.st_mtime_ns)
        if state != self._newest[0]:
            self._newest = (state, read_starts(self.directory))
        return self._newest[1]

    def add_cut(self, host: str, log: str, start: int, end: int) -> int:
        """Record that a log was cut on its host; return where its new bytes start locally."""
        found = self._starts[host, log] = add_cut(self.directory, _name(host, log), start, end)
        return found

    def find_deleted(self) -> str:
        """Return which local logs are gone, or shorter than they were written, "" for none."""
        gone = [_name(*key) for key, size in self._sizes.items() if self._length(key) < size]
        return f"{name_first(gone, 1)} was deleted or cut locally" if gone else ""

    def _length(self, key: tuple[str, str]) -> int:
        try:
            return self.path(*key).stat().st_size
        except (OSError, PathRefused):
            return -1

    def last_lines(self, host: str, log: str, count: int) -> tuple[str, ...]:
        """Return the last lines of a log, safe to print; of a progress bar its last state."""
        text = sanitize(self._tails.get((host, log), b"").replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return tuple(deque((line for line in text.splitlines() if line.strip()), maxlen=count))

    def read_numbered_end(self, host: str, log: str) -> tuple[int, str]:
        """Return the end of a log, and before it the number of its first line; 0: that is not known."""
        end, count = self._tails.get((host, log), b""), 0
        with suppress(OSError, PathRefused), self.path(host, log).open("rb") as file:
            while part := file.read(1 << 20):
                count += part.count(b"\n")
        first = 0 if self.failed else max(0, count - end.count(b"\n") + 1)
        return first, end.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the files."""
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()

    def _file(self, key: tuple[str, str]) -> int:
        """Return a log's open file; where there are many, another one is closed for it."""
        fd = self._files.pop(key, -1)
        if fd < 0:
            fd = self._open_in_place_of_others(key)
            self._sizes.setdefault(key, os.fstat(fd).st_size)
        self._files[key] = fd
        if len(self._files) > self._most_open:
            raise_descriptor_limit(2 * min(2 * len(self._files), MAX_OPEN))
            self._most_open = max(1, min(MAX_OPEN, read_descriptor_limit() // 2))
        if len(self._files) > self._most_open:
            self._close_oldest(1)
        return fd

    def _open_in_place_of_others(self, key: tuple[str, str]) -> int:
        """Open a log. Where connections hold the other descriptors, the older half of the files is closed."""
        while True:
            try:
                return safe_paths.open_below(self.directory, _name(*key), os.O_WRONLY | os.O_CREAT)
            except OSError as error:
                if not self._files or not is_exhausted(error):
                    raise
                self._close_oldest((len(self._files) + 1) // 2)

    def _close_oldest(self, count: int) -> None:
        for key in list(self._files)[:count]:
            os.close(self._files.pop(key))


def run_directory(logs: Path, run_id: str) -> Path:
    """Return where a run is kept locally. Raises PathRefused for a name not of our form, or a link in
    its place.
    """
    if not is_run_id(run_id):
        raise PathRefused(f"{one_line(run_id, 80)!r} is not a run id")
    return safe_paths.join_below(logs, run_id)


def demand_room(logs: Path) -> None:
    """Raise RunAborted where no directory of a run can be made below `logs`; make nothing."""
    if code := safe_paths.access_errno(safe_paths.find_nearest_existing(logs), os.W_OK | os.X_OK):
        raise _unmade(logs, os.strerror(code))


def _unmade(directory: Path, why: str) -> RunAborted:
    where = one_line(str(directory), 300)
    fix = "--logs DIRECTORY of run and rehearse names another place; else cd to one that you may write to"
    return RunAborted(f"{where} cannot be made: {why}", fix)


def _texts(path: Path) -> frozenset[str]:
    """Return what was noted of a run so far."""
    found = set()
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                found.add(str(json.loads(line)["text"]))
    return frozenset(found)


def make_safe_name(name: str) -> str:
    """Return a host's or log's name as a file name: what comes from a host must not choose where it lands."""
    safe = _UNSAFE.sub("_", name).lstrip(".") or "_"
    if len(safe.encode()) <= _LONGEST_NAME:
        return safe
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:16]
    return f"{safe.encode()[: _LONGEST_NAME - 17].decode(errors='ignore')}-{digest}"


def _name(host: str, log: str) -> str:
    return f"{make_safe_name(host)}/{make_safe_name(log)}"
