"""The local working tree: which files are to be sent, and what is in them."""

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from launcher.errors import ConfigError, SyncFailed
from launcher.local.home import find_home
from launcher.onhost.sync.target_state import TreeEntry, hash_tree
from launcher.sync import git
from launcher.sync.hash_cache import HashCache
from launcher.sync.ignore import Ignore, InvalidPattern, Rules, add_rules, find_rule
from launcher.text import one_line
from preflight import regex as re
from preflight.frozen import dataclass

STATE = ".gpulaunch-sync"
FORBIDDEN = frozenset({".git", STATE, "__pycache__"})
DEFAULT_EXCLUDES = ("/gpulaunch-runs/",)
CHUNK = 1 << 20
MAX_DEPTH = 200  # directories of a path; a deeper tree was made by a mistake, or to break something
MAX_CHECKOUTS = 200
_BIGGEST = 3
_PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )?PRIVATE KEY-----|PuTTY-User-Key-File-")
"""First bytes of what is never sent, for it mostly opens the very hosts that a tree is sent to: PEM
(RFC 7468), OpenSSH's PROTOCOL.key, PuTTY's format."""
_POINTER, _LONGEST_POINTER = b"version https://git-lfs.github.com/spec/", 1024  # Git LFS, docs/spec.md


@dataclass(frozen=True, slots=True)
class SourceTree:
    """Everything to be sent, in order of the paths. `notes` are what a person should know of it."""

    root: Path
    entries: tuple[TreeEntry, ...]
    from_git: bool
    notes: tuple[str, ...]
    checkouts: tuple[str, ...] = ()  # git checkouts inside it, submodules among them

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(entry.size for entry in self.entries)

    @property
    def content_hash(self) -> str:
        """One SHA-256 over paths, modes and contents: equal trees have equal ones."""
        return hash_tree(self.entries)


def read_tree(
    root: Path,
    *,
    exclude: tuple[str, ...],
    max_mib: int,
    logs: Path | None = None,
    include: Sequence[str] = (),
) -> SourceTree:
    """Return what is to be sent of a directory. `logs` is where runs are kept locally: never a part of it.

    Raises ConfigError for no such directory and a pattern that is none, SyncFailed for a file that cannot be
    read and a tree that is too large.
    """
    root = resolve_root(root)
    out = _excluded((*DEFAULT_EXCLUDES, *exclude, *_logs_inside(root, logs)))
    by_git = git.is_checkout(root)
    try:
        look = _TreeWalk(root)
        names, checkouts = _by_git(root, out) if by_git else (_by_walking(root, out), ())
        names = sorted({*names, *_included(root, include, out)}) if include else names
        found = [pair for name in names if (pair := look.read_entry(name))]
    except OSError as error:
        raise _unreadable(Path(error.filename or root), error) from None
    _refuse_too_large(root, found, max_mib)
    cache = HashCache(root)
    entries = [(name, _entry(root, name, status, cache)) for name, status in found]
    cache.save()
    keys = [f"{name} is a private key: it is not sent" for name, entry in entries if entry is None]
    sent = tuple(entry for _, entry in entries if entry is not None)
    return SourceTree(root, sent, by_git, (*keys, *look.notes), checkouts)


def resolve_root(root: Path) -> Path:
    """Return the directory that is to be sent. Raises ConfigError for one that cannot be a working tree."""
    if not root.is_dir():
        raise ConfigError(f"{root}: no such directory", "set sync.from to the tree that is to be sent")
    root = root.resolve()
    if root in (Path("/"), find_home().resolve()):
        raise ConfigError(
            f"{root} is not a working tree: it holds everything else too",
            "start gpulaunch in the project's directory, or set sync.from",
        )
    return root


def _excluded(patterns: tuple[str, ...]) -> Ignore:
    try:
        return Ignore.from_lines(patterns, strict=True)
    except InvalidPattern as error:
        raise ConfigError(
            f"sync.exclude: {one_line(str(error))}", "patterns are those of .gitignore"
        ) from None


def _logs_inside(root: Path, logs: Path | None) -> tuple[str, ...]:
    if logs is None or not logs.resolve().is_relative_to(root) or logs.resolve() == root:
        return ()
    path = logs.resolve().relative_to(root).as_posix()
    return ("/" + "".join("\\" + sign if sign in "*?[\\ " else sign for sign in path) + "/",)


def _is_out(root: Path, name: str, out: Ignore) -> bool:
    parts = name.split("/")
    if len(parts) > MAX_DEPTH and out.excludes_directory("/".join(parts[:MAX_DEPTH])):
        return True
    _refuse_too_deep(root, parts)
    return not FORBIDDEN.isdisjoint(parts) or out.excludes(name)


def _refuse_too_deep(root: Path, parts: Sequence[str]) -> None:
    if len(parts) > MAX_DEPTH:
        top = one_line("/".join(parts[:_BIGGEST]), 120)
        raise SyncFailed(
            f"{root}: a path below {top} goes through more than {MAX_DEPTH} directories",
            f"leave it out with sync.exclude: [{parts[0]}/]" if len(parts[0]) < 80 else "",
        )


def _by_git(root: Path, out: Ignore) -> tuple[list[str], tuple[str, ...]]:
    """Return the files that git lists, and the checkouts inside, submodules too, whose files they hold."""
    names: list[str] = []
    todo, checkouts = [""], list[str]()
    while todo:
        below = todo.pop()
        for name in git.list_files(root / below, lambda name: out.excludes_directory(below + name)):  # noqa: B023 - called at once
            path = below + name.rstrip("/")
            if _is_out(root, path, out):
                continue
            # git answers for a submodule that is not checked out, too: from the checkout above it
            has_own = (root / path / ".git").exists() and not (root / path).is_symlink()
            if has_own and git.is_checkout(root / path):
                todo.append(path + "/")
                checkouts.append(path)
            else:
                names.append(path)
        if len(checkouts) > MAX_CHECKOUTS:
            raise SyncFailed(
                f"{root}: there are more than {MAX_CHECKOUTS} git checkouts inside it",
                "start gpulaunch in one project's directory, or set sync.from",
            )
    return sorted(names), tuple(sorted(checkouts))


def _included(root: Path, include: Sequence[str], out: Ignore) -> Iterator[str]:
    """Yield the files of these paths, which may have a shell's wildcards. Raises ConfigError for none."""
    for pattern in include:
        inside = posixpath.normpath(pattern.strip("/"))
        try:
            found = [root / inside] if os.path.lexists(root / inside) else list(root.glob(inside))
        except ValueError:  # a**b
            found = []
        inner = {path for path in {each.parent for each in found} if path.resolve() == path}
        found = [path for path in found if path.parent in inner and path != root and path.name != ".."]
        if not found:
            raise ConfigError(
                f"sync.include: {one_line(pattern, 120)} is not in {root}", "name a path below sync.from"
            )
        for path in found:
            name = path.relative_to(root).as_posix()
            if path.is_dir() and not path.is_symlink():
                if not _is_out(root, name, out) and not out.excludes_directory(name):
                    yield from _by_walking(root, out, name + "/", honours_ignore=False)
            elif not _is_out(root, name, out):
                yield name


def _by_walking(root: Path, out: Ignore, start: str = "", *, honours_ignore: bool = True) -> list[str]:
    """Return the files of a tree without git; .gitignore files are honoured as git does, or not at all."""
    names: list[str] = []
    todo: list[tuple[str, Rules]] = [(start, ())]
    while todo:
        below, rules = todo.pop()
        _refuse_too_deep(root, below.split("/"))
        rules = add_rules(rules, root, below) if honours_ignore else ()
        for entry in _entries_of(root / below):
            is_directory = entry.is_dir(follow_symlinks=False)
            path = below + entry.name
            said = find_rule(rules, path, is_directory=is_directory)
            if entry.name in FORBIDDEN or (said is not None and said[1].excludes):
                continue
            if is_directory and not out.excludes_directory(path):
                todo.append((path + "/", rules))
            elif not is_directory and not out.excludes(path):
                names.append(path)
    return sorted(names)


def _entries_of(directory: Path) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as found:
        return list(found)


class _TreeWalk:
    """Looks at the files of a tree by name. `notes` are what a person should know of them."""

    def __init__(self, root: Path) -> None:
        self.notes: list[str] = []
        self._root = root
        self._links: dict[str, bool] = {"": False}  # by directory: whether a link leads to it
        self._ours = _own_output()
        attributes = root / ".gitattributes"
        self._has_lfs = attributes.is_file() and b"filter=lfs" in attributes.read_bytes()

    def read_entry(self, name: str) -> tuple[str, os.stat_result] | None:
        """Return a name with its stat; None for what is not sent: gone, ours, neither file nor link."""
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise SyncFailed(
                f"{self._root}: git lists {one_line(name, 120)!r}, which is not a path inside the tree"
            )
        if self._is_behind_a_link(name):
            return None  # tracked by git, and its directory is a link now: it is not in the tree any more
        path = f"{self._root}/{name}"
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None  # tracked by git, removed from the tree
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(path)  # noqa: PTH115 - Path would normalise it
            if Path(target).is_absolute() or os.path.normpath(f"{name}/../{target}").startswith(".."):
                self.notes.append(f"{name} is a link out of the tree: it is sent as a link to {target}")
            return name, status
        if (status.st_dev, status.st_ino) in self._ours:
            self.notes.insert(0, f"{name} is where the output of gpulaunch goes: it is not sent")
            return None
        if not stat.S_ISREG(status.st_mode):
            if not stat.S_ISDIR(status.st_mode):
                self.notes.append(f"{name} is not a regular file and is not sent")
            elif not _entries_of(Path(path)):
                self.notes.append(f"{name} is empty: a submodule? `git submodule update --init` fills it")
            return None
        if (
            self._has_lfs
            and status.st_size < _LONGEST_POINTER
            and Path(path).read_bytes().startswith(_POINTER)
        ):
            self.notes.append(f"{name} is a pointer of Git LFS: `git lfs pull` puts the file in its place")
        return name, status

    def _is_behind_a_link(self, name: str) -> bool:
        above = name.rpartition("/")[0]
        known = self._links.get(above)
        if known is None:
            known = self._is_behind_a_link(above) or (self._root / above).is_symlink()
            self._links[above] = known
        return known


def _own_output() -> frozenset[tuple[int, int]]:
    """Return which files our standard output and error are: they grow while the tree is sent."""
    found = []
    for descriptor in (1, 2):
        with suppress(OSError):
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_dev, status.st_ino))
    return frozenset(found)


def _refuse_too_large(root: Path, found: list[tuple[str, os.stat_result]], max_mib: int) -> None:
    files = [(status.st_size, name) for name, status in found if stat.S_ISREG(status.st_mode)]
    total = sum(size for size, _ in files)
    if total <= max_mib << 20:
        return
    biggest = ", ".join(
        f"{name} ({size / 2**20:.0f} MiB)" for size, name in sorted(files)[: -_BIGGEST - 1 : -1]
    )
    raise SyncFailed(
        f"{root}: {len(files)} files of {total / 2**20:.0f} MiB would be sent, and sync.max_mib is {max_mib};"
        f" the biggest: {biggest}",
        "leave out what is not code with .gitignore or sync.exclude, or raise sync.max_mib",
    )


def _entry(root: Path, name: str, status: os.stat_result, cache: HashCache) -> TreeEntry | None:
    """Return what is to be sent of a name; None for a private key."""
    if stat.S_ISLNK(status.st_mode):
        return TreeEntry(name, "l", 0, 0, os.readlink(root / name))  # noqa: PTH115 - Path would normalise it
    known, size = cache.find(name, status), status.st_size
    if known is None:
        known, size = _hash(root / name, name, cache)
    if not known:
        return None
    return TreeEntry(name, "f", stat.S_IMODE(status.st_mode) & 0o777, size, known)


def _hash(path: Path, name: str, cache: HashCache) -> tuple[str, int]:
    """Return the SHA-256 of a file and how many bytes were read; "" of a private key. Raises SyncFailed."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb", buffering=0) as file:
            while data := file.read(CHUNK):
                if not size and _PRIVATE_KEY.match(data):
                    return "", 0  # not kept, so that it is looked at again
                digest.update(data)
                size += len(data)
            found = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable(path, error) from None
    if stat.S_ISREG(found.st_mode) and found.st_size == size:
        cache.add(name, found, digest.hexdigest())
    return digest.hexdigest(), size


def _unreadable(path: Path, error: OSError) -> SyncFailed:
    return SyncFailed(f"{path} cannot be read: {error.strerror}", git.fix_of(str(error.strerror)))
