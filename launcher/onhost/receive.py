r"""Runs on a host, streamed: takes the files of a working tree into one directory. Standard library, >= 3.9.

stdin, one JSON line each, in this order, and what is answered:
  {"target": DIR, "nonce": N}    {"root": PATH, "rsync": PATH or ""}; leaves a file named after N
                                 in DIR/.gpulaunch-sync
  {"nonces": [N, ...]}           {"seen": [N, ...]}; hosts that see each other's share one directory
  {"entries": BYTES, "delete": BOOL}, then that many bytes of zlib: a JSON list of
      [path, "f", mode, size, sha256] and [path, "l", 0, 0, link target]
                                 {"need": [index, ...]}; what is not here with this content
  {"adopt": [index, ...]}        {"adopted": [index, ...]}; those that rsync has put whole into
                                 incoming-N/tree
  {"put": index}, then chunks "<length>\n<zlib bytes>", "0\n" at its end; as often as needed, not answered
  {"staged": true}               {"staged": count}; all is here and whole, nothing is in place yet
  {"commit": true}               {"written", "kept", "kept_in", "deleted", "stale", "edited"}; all is in place
At the end of stdin everything that was not committed is removed again.

stdout: lines `GPULAUNCH-SYNC-1 <JSON>`; {"error": TEXT, "fix": TEXT} ends it.

Nothing outside the directory is ever written: paths are walked component by component without following a
link. A file that is replaced and that no former sync put there is kept in .gpulaunch-sync/replaced/.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import sys
import time
import zlib
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

MARKER = "GPULAUNCH-SYNC-1"
STATE = ".gpulaunch-sync"
TREE = "tree"
BARRED = (".git", STATE)
LOCK_WAIT_S = 60.0
SETTLED_NS = 2 * 10**9
"""A file that changed so short before it was hashed may change again within one tick of its clock."""
OLD_NONCE_S = 86400.0
CHUNK = 1 << 20
MAX_LINE = 1 << 20
MAX_CHUNK = 8 << 20

Entry = List[Any]


class Refused(Exception):
    """What cannot be done here, in words for a person."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


def say(answer: Dict[str, Any]) -> None:
    """Write one answer line; the leading newline ends whatever a login shell printed before."""
    sys.stdout.write("\n%s %s\n" % (MARKER, json.dumps(answer)))
    sys.stdout.flush()


def in_words(error: OSError, target: str) -> Refused:
    """Return what an error of the system means for a sync."""
    where = error.filename if isinstance(error.filename, str) else ""
    place = os.path.join(target, where) if where else target
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refused(
            "no space left (or no inodes) for %s" % target, "make room there, or set sync.to to another disk"
        )
    if error.errno == errno.EROFS:
        return Refused("%s is on a read-only file system" % place, "set sync.to to a directory you may write")
    if error.errno in (errno.EACCES, errno.EPERM):
        me = os.environ.get("USER") or "uid %d" % os.getuid()
        return Refused("%s may not write %s" % (me, place), "set sync.to to a directory you may write")
    return Refused("%s: %s" % (place, error.strerror or error))


def parts_of(path: str) -> List[str]:
    """Return the components of a path that may be written. Raises Refused for every other one."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") or part in BARRED for part in parts):
        raise Refused("%r is no path inside the directory; nothing was written" % path)
    return parts


def is_inside(path: Any) -> bool:
    """Return whether a path of the record may be written: the record is a file, and anybody can edit one."""
    try:
        return isinstance(path, str) and bool(parts_of(path))
    except Refused:
        return False


def same(found: os.stat_result, known: List[Any]) -> bool:
    """Return whether a file is what was hashed, by what changes with every write."""
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino] == known[1:5]


class Directory:
    """The target: looked at and written only by components, no link followed."""

    def __init__(self, target: str) -> None:
        wanted = os.path.abspath(os.path.expanduser(target))
        self.root = os.path.realpath(wanted)
        if self.root in ("/", os.path.realpath(os.path.expanduser("~"))):
            raise Refused(
                "%s is no directory for a working tree alone" % self.root,
                "set sync.to (or workdir) to a directory below it",
            )
        os.makedirs(self.root, exist_ok=True)
        self.fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(FileExistsError):
            os.mkdir(STATE, 0o700, dir_fd=self.fd)
        self.state = os.open(
            STATE, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd
        )
        self._last: Tuple[Tuple[str, ...], int] = ((), -1)

    def forget(self) -> None:
        """Close the directory that was used last."""
        if self._last[1] >= 0:
            os.close(self._last[1])
        self._last = ((), -1)

    def parent(self, parts: List[str]) -> Optional[int]:
        """Return the directory that holds a path, valid until the next call; None: it is not there.

        Raises NotADirectoryError with the path of what is in the way.
        """
        wanted = tuple(parts[:-1])
        if not wanted:
            return self.fd
        if self._last[0] != wanted:
            self.forget()
            fd = self._walk(wanted)
            if fd is None:
                return None
            self._last = (wanted, fd)
        return self._last[1]

    def _walk(self, parts: Tuple[str, ...]) -> Optional[int]:
        fd = os.dup(self.fd)
        for place, name in enumerate(parts):
            try:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    way = "/".join(parts[: place + 1])
                    raise NotADirectoryError(errno.ENOTDIR, "in the way", way) from None
                error.filename = "/".join(parts[: place + 1])
                raise
            finally:
                os.close(fd)
            fd = below
        return fd

    def look(self, parts: List[str]) -> Optional[os.stat_result]:
        """Return what is at a path, None when nothing is."""
        fd = self.parent(parts)
        if fd is None:
            return None
        try:
            return os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def hash(self, parts: List[str]) -> str:
        """Return the SHA-256 of a regular file."""
        digest = hashlib.sha256()
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.parent(parts))
        with open(fd, "rb") as file:
            for data in iter(lambda: file.read(CHUNK), b""):
                digest.update(data)
        return digest.hexdigest()

    def link(self, parts: List[str]) -> str:
        """Return where a symbolic link points."""
        return os.readlink(parts[-1], dir_fd=self.parent(parts))

    def make_parent(self, parts: List[str], made: List[str]) -> int:
        """Return the directory that holds a path, made where needed; `made` gets the new ones."""
        fd = self.parent(parts)
        if fd is not None:
            return fd
        for count in range(1, len(parts)):
            above = self.parent(parts[:count])
            with suppress(FileExistsError):
                os.mkdir(parts[count - 1], 0o777, dir_fd=above)
                made.append("/".join(parts[:count]))
        fd = self.parent(parts)
        if fd is None:
            raise Refused("%s vanished while it was being written" % "/".join(parts[:-1]))
        return fd


class Record:
    """What former syncs put here, and the hashes of files that have not changed since: path -> row.

    A row: identity ("f" + SHA-256, or "l" + link target), size, mtime, ctime and inode when it was hashed
    (zeros: too fresh to be trusted), and whether a sync put it there.
    """

    def __init__(self, state: int) -> None:
        self._state = state
        self.rows: Dict[str, List[Any]] = {}
        self.dirs: List[str] = []
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            with open(os.open("record.json", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=state), "rb") as file:
                data = json.loads(file.read())
            self.rows = {
                path: list(row) for path, row in data["files"].items() if len(row) == 6 and is_inside(path)
            }
            self.dirs = [path for path in data["dirs"] if is_inside(path)]

    def save(self) -> None:
        """Write it whole or not at all."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        data = json.dumps({"files": self.rows, "dirs": sorted(set(self.dirs))}).encode()
        with open(os.open("record.new", flags, 0o600, dir_fd=self._state), "wb") as file:
            file.write(data)
        os.rename("record.new", "record.json", src_dir_fd=self._state, dst_dir_fd=self._state)


class Receiver:
    """One sync of this host."""

    def __init__(self, target: str, nonce: str) -> None:
        if not nonce.isalnum():
            raise Refused("the nonce is no name")
        self.directory = Directory(target)
        self.nonce = nonce
        self.incoming = -1
        self.entries: List[Entry] = []
        self.need: List[int] = []
        self.staged: Dict[int, int] = {}
        self.modes: List[Tuple[str, int, int]] = []  # path, wanted, found
        self.delete = False
        self.lock = -1
        self.now_ns = 0
        self._touch("nonce-" + nonce)
        self._hide()

    def _touch(self, name: str) -> None:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.directory.state))

    def _hide(self) -> None:
        """Keep git from showing our directory."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            fd = os.open(".gitignore", flags, 0o600, dir_fd=self.directory.state)
        except FileExistsError:
            return
        with open(fd, "wb") as file:
            file.write(b"*\n")

    def seen(self, nonces: List[str]) -> List[str]:
        """Return whose files are here: a look-up by name asks a file server, where a listing may be old."""
        found = []
        for nonce in nonces:
            with suppress(OSError):
                os.stat("nonce-" + str(nonce), dir_fd=self.directory.state, follow_symlinks=False)
                found.append(nonce)
        return found

    def begin(self, entries: List[Entry], *, delete: bool) -> List[int]:
        """Take the lock, return the indices of what is not here."""
        self.delete = delete
        paths = {entry[0] for entry in entries}
        if len(paths) != len(entries):
            raise Refused("one path is named twice; nothing was written")
        for path in paths:
            parts = parts_of(path)
            for count in range(1, len(parts)):
                if "/".join(parts[:count]) in paths:
                    raise Refused("%r lies below a file or a link; nothing was written" % path)
        self.entries = entries
        self._take_lock()
        self._sweep()
        self.record = Record(self.directory.state)
        os.mkdir("incoming-" + self.nonce, 0o700, dir_fd=self.directory.state)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.incoming = os.open("incoming-" + self.nonce, flags, dir_fd=self.directory.state)
        self.now_ns = os.fstat(self.incoming).st_mtime_ns  # by the clock that the files' times are of
        self.need = [index for index, entry in enumerate(entries) if not self._is_here(entry)]
        self._refuse_full(sum(int(entries[index][3]) for index in self.need))
        return self.need

    def _take_lock(self) -> None:
        self.lock = os.open(
            "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.directory.state
        )
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    return  # a file system without locks
            else:
                return
            if time.monotonic() > deadline:
                raise Refused(
                    "another sync has been writing %s for %g s" % (self.directory.root, LOCK_WAIT_S),
                    "wait for it to end, or give each run a directory of its own with sync.to",
                )
            time.sleep(0.1)

    def _sweep(self) -> None:
        """Remove what killed syncs have left: we hold the lock, so no other one is at work."""
        for name in os.listdir(self.directory.state):
            path = os.path.join(self.directory.root, STATE, name)
            if name.startswith("incoming-"):
                shutil.rmtree(path, ignore_errors=True)
            elif name.startswith("nonce-"):
                with suppress(OSError):
                    if time.time() - os.lstat(path).st_mtime > OLD_NONCE_S:
                        os.unlink(path)

    def _refuse_full(self, need: int) -> None:
        disk = os.fstatvfs(self.directory.fd)
        free = disk.f_bavail * disk.f_frsize
        if need > free:
            raise Refused(
                "%d MiB are to be written to %s, and %d MiB are free"
                % (-(-need >> 20) or 1, self.directory.root, free >> 20),
                "make room there, exclude files (sync.exclude), or set sync.to to another disk",
            )

    def identity(self, path: str) -> str:
        """Return what is at a path: "f" + SHA-256, "l" + target, "d", "?" for others, "" for nothing."""
        parts = path.split("/")
        try:
            found = self.directory.look(parts)
        except NotADirectoryError:
            return ""
        if found is None:
            return ""
        if stat.S_ISLNK(found.st_mode):
            return "l" + self.directory.link(parts)
        if not stat.S_ISREG(found.st_mode):
            return "d" if stat.S_ISDIR(found.st_mode) else "?"
        known = self.record.rows.get(path)
        if known and str(known[0])[:1] == "f" and same(found, known):
            return str(known[0])
        told = "f" + self.directory.hash(parts)
        if found.st_ctime_ns < self.now_ns - SETTLED_NS:
            was_put = bool(known and known[5])
            if known is None or not was_put or known[0] == told:  # one edited here stays known as put
                self._remember(path, told, found, ours=was_put)
        return told

    def _remember(self, path: str, told: str, found: Optional[os.stat_result], *, ours: bool) -> None:
        times = [0, 0, 0, 0]
        if found is not None:
            times = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        self.record.rows[path] = [told, *times, ours]

    def is_ours(self, path: str) -> bool:
        """Return whether a sync put there what is at a path now."""
        row = self.record.rows.get(path)
        return row is not None and bool(row[5]) and self.identity(path) == row[0]

    def _is_here(self, entry: Entry) -> bool:
        path, kind, mode, _, content = entry
        try:
            found = self.directory.look(path.split("/"))
        except NotADirectoryError as error:
            way = str(error.filename)
            if not self.is_ours(way):
                what = "a symbolic link" if self.identity(way)[:1] == "l" else "a file"
                raise Refused(
                    "%s in %s is %s, so %s cannot be written below it"
                    % (way, self.directory.root, what, path),
                    "move it away there, or exclude it (sync.exclude)",
                ) from None
            return False
        if found is None:
            return False
        if stat.S_ISDIR(found.st_mode):
            self._refuse_directory(path)
            return False
        if self.identity(path) != kind + content:
            return False
        if kind == "f" and stat.S_IMODE(found.st_mode) != mode:
            self.modes.append((path, mode, stat.S_IMODE(found.st_mode)))
        return True

    def _refuse_directory(self, path: str) -> None:
        names = os.listdir(os.path.join(self.directory.root, path))
        if names:
            raise Refused(
                "%s in %s is a directory, and it is a file in the tree that is sent"
                % (path, self.directory.root),
                "move it away there, or exclude it (sync.exclude)",
            )

    def _set_mode(self, path: str, mode: int, found: int) -> None:
        parts = path.split("/")
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self.directory.parent(parts))
        try:
            os.fchmod(fd, mode & 0o777)
        except PermissionError:
            if (found ^ mode) & 0o100:  # somebody else's file: only whether it can be run matters
                raise
        finally:
            os.close(fd)

    def put(self, index: int, stream: BinaryIO) -> None:
        """Stage one needed entry."""
        if index not in self.need or index in self.staged:
            raise Refused("a file came that was not asked for; nothing was written")
        path, kind, mode, size, content = self.entries[index]
        name = str(index)
        if kind == "l":
            os.symlink(content, name, dir_fd=self.incoming)
            self.staged[index] = 0
            return
        digest, count = hashlib.sha256(), 0
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.incoming)
        with open(fd, "wb") as file:
            for data in chunks(stream):
                count += len(data)
                if count > size:
                    break
                digest.update(data)
                file.write(data)
            os.fchmod(file.fileno(), mode & 0o777)
        if count != size or digest.hexdigest() != content:
            raise Refused("%s changed while it was sent; nothing was written" % path, "run it again")
        self.staged[index] = count

    def adopt(self, indices: List[int]) -> List[int]:
        """Stage what rsync has brought; return those that are whole. The others can still be put."""
        return [index for index in indices if index in self.need and self._adopt(index)]

    def _adopt(self, index: int) -> bool:
        path, kind, mode, size, content = self.entries[index]
        came = os.path.join(TREE, *parts_of(path))
        digest = hashlib.sha256()
        try:
            fd = os.open(
                came, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.incoming
            )
        except OSError:
            return False
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if (
                kind != "f"
                or index in self.staged
                or not stat.S_ISREG(found.st_mode)
                or found.st_size != size
            ):
                return False
            for data in iter(lambda: file.read(CHUNK), b""):
                digest.update(data)
            if digest.hexdigest() != content:
                return False
            os.fchmod(fd, mode & 0o777)
        os.rename(came, str(index), src_dir_fd=self.incoming, dst_dir_fd=self.incoming)
        self.staged[index] = size
        return True

    def all_staged(self) -> int:
        """Return how many are staged. Raises Refused when some did not come."""
        if set(self.staged) != set(self.need):
            raise Refused("not every file came; nothing was written")
        return len(self.staged)

    def commit(self) -> Dict[str, Any]:
        """Put everything in place, each by one rename."""
        self.all_staged()
        kept = [path for path in (self.entries[index][0] for index in self.need) if self._keep(path)]
        for index in self.need:  # told first: whatever happens now, what a sync put here is known as such
            path, kind, _, _, content = self.entries[index]
            self._remember(path, kind + content, None, ours=True)
        self.record.save()
        for index in self.need:
            self._place(index)
        for path, mode, found in self.modes:
            self._set_mode(path, mode, found)
        deleted, stale, edited = self._drop_stale()
        self.record.save()
        return {
            "written": len(self.need),
            "kept": kept,
            "kept_in": os.path.join(self.directory.root, STATE, "replaced", self._when()),
            "deleted": deleted,
            "stale": stale,
            "edited": edited,
        }

    def _keep(self, path: str) -> bool:
        """Copy what is to be replaced, unless a sync put it there; return whether there was such a thing."""
        told = self.identity(path)
        if told in ("", "d") or self.is_ours(path):
            return False
        flat = os.path.join(self.directory.root, STATE, "replaced", self._when(), path)
        os.makedirs(os.path.dirname(flat), exist_ok=True)
        source = os.path.join(self.directory.root, path)
        if told == "?":
            raise Refused("%s in %s is no file" % (path, self.directory.root), "move it away there")
        shutil.copy2(source, flat, follow_symlinks=False)
        return True

    def _when(self) -> str:
        moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(self.now_ns // 10**9))
        return "%s-%s" % (moment, self.nonce[:6])

    def _place(self, index: int) -> None:
        path = self.entries[index][0]
        parts = path.split("/")
        try:
            fd = self.directory.make_parent(parts, self.record.dirs)
        except NotADirectoryError as error:
            self._unlink_ours(str(error.filename))
            fd = self.directory.make_parent(parts, self.record.dirs)
        found = self.directory.look(parts)
        if found is not None and stat.S_ISDIR(found.st_mode):
            os.rmdir(parts[-1], dir_fd=fd)
        try:
            os.rename(str(index), parts[-1], src_dir_fd=self.incoming, dst_dir_fd=fd)
        except OSError as error:
            if error.errno != errno.EXDEV:
                error.filename = path
                raise
            self._place_on_other_disk(index, parts[-1], fd)

    def _place_on_other_disk(self, index: int, name: str, fd: int) -> None:
        """Copy beside the place, then rename: a directory of the tree is a mount of its own."""
        beside = "%s.%s" % (name[:100], self.nonce)
        source = os.path.join(self.directory.root, STATE, "incoming-" + self.nonce, str(index))
        try:
            shutil.copy2(source, "/proc/self/fd/%d/%s" % (fd, beside), follow_symlinks=False)
            os.rename(beside, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=fd)
            raise

    def _unlink_ours(self, path: str) -> None:
        """Remove a file that a sync put where the tree now has a directory."""
        if not self.is_ours(path):
            raise Refused("%s in %s changed meanwhile" % (path, self.directory.root), "run it again")
        parts = path.split("/")
        os.unlink(parts[-1], dir_fd=self.directory.parent(parts))
        self.record.rows.pop(path, None)

    def _drop_stale(self) -> Tuple[List[str], List[str], List[str]]:
        """Deal with what former syncs put here and the tree has no more: deleted if asked and not edited."""
        present = {entry[0] for entry in self.entries}
        deleted: List[str] = []
        stale: List[str] = []
        edited: List[str] = []
        for path, row in sorted(self.record.rows.items()):
            if path in present:
                continue
            told = self.identity(path)
            if not row[5] or told in ("", "d"):
                self.record.rows.pop(path, None)
            elif told != row[0]:
                edited.append(path)
            elif self.delete:
                parts = path.split("/")
                os.unlink(parts[-1], dir_fd=self.directory.parent(parts))
                self.record.rows.pop(path, None)
                deleted.append(path)
            else:
                stale.append(path)
        if deleted:
            self._drop_empty_dirs()
        return deleted, stale, edited

    def _drop_empty_dirs(self) -> None:
        for path in sorted(set(self.record.dirs), key=len, reverse=True):
            parts = path.split("/")
            with suppress(OSError):
                fd = self.directory.parent(parts)
                if fd is not None:
                    os.rmdir(parts[-1], dir_fd=fd)
                    self.directory.forget()
                self.record.dirs = [other for other in self.record.dirs if other != path]

    def close(self) -> None:
        """Remove what is ours for this sync only."""
        with suppress(OSError):
            os.unlink("nonce-" + self.nonce, dir_fd=self.directory.state)
        if self.incoming >= 0:
            path = os.path.join(self.directory.root, STATE, "incoming-" + self.nonce)
            shutil.rmtree(path, ignore_errors=True)
        if self.lock >= 0:
            os.close(self.lock)


def chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the data of one file, to its end mark."""
    while True:
        line = stream.readline(32)
        if not line.endswith(b"\n") or not line.strip().isdigit() or int(line) > MAX_CHUNK:
            raise EOFError
        if int(line) == 0:
            return
        packed = read_exactly(stream, int(line))
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, MAX_CHUNK)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise Refused("a piece of a file is damaged; nothing was written")
        yield data


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """Return so many bytes. Raises EOFError when the other side has gone."""
    data = stream.read(count)
    if len(data) != count:
        raise EOFError
    return data


def ask(stream: BinaryIO) -> Dict[str, Any]:
    """Return the next line of stdin. Raises EOFError at its end."""
    line = stream.readline(MAX_LINE)
    if not line.endswith(b"\n"):
        raise EOFError
    asked = json.loads(line)
    if not isinstance(asked, dict):
        raise Refused("the request is not understood")
    return asked


def serve(receiver: Receiver, stream: BinaryIO) -> None:
    """Answer until stdin ends."""
    while True:
        asked = ask(stream)
        if "nonces" in asked:
            say({"seen": receiver.seen(asked["nonces"])})
        elif "entries" in asked:
            told = json.loads(zlib.decompress(read_exactly(stream, int(asked["entries"]))))
            say({"need": receiver.begin(told, delete=bool(asked.get("delete")))})
        elif "adopt" in asked:
            say({"adopted": receiver.adopt([int(index) for index in asked["adopt"]])})
        elif "put" in asked:
            receiver.put(int(asked["put"]), stream)
        elif "staged" in asked:
            say({"staged": receiver.all_staged()})
        elif "commit" in asked:
            say(receiver.commit())
        else:
            raise Refused("the request is not understood")


@contextmanager
def receiving(target: str, nonce: str) -> Iterator[Receiver]:
    """Open the directory, and leave nothing of this sync in it but what was committed."""
    receiver = Receiver(target, nonce)
    try:
        yield receiver
    finally:
        receiver.close()


def main() -> int:
    """Do one sync."""
    stream = sys.stdin.buffer
    target = "the directory"
    try:
        asked = ask(stream)
        target = str(asked["target"])
        with receiving(target, str(asked["nonce"])) as receiver:
            say({"root": receiver.directory.root, "rsync": shutil.which("rsync") or ""})
            serve(receiver, stream)
    except EOFError:
        return 0
    except Refused as refusal:
        say({"error": refusal.message, "fix": refusal.fix})
    except OSError as error:
        told = in_words(error, target)
        say({"error": told.message, "fix": told.fix})
    return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.exit(code)
