"""The working tree here: which files are to be sent, and what is in them."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from launcher.homepaths import home
from launcher.report.text import one_line
from launcher.syncing import git
from launcher.syncing.errors import SyncFailed
from preflight.records import dataclass

STATE = ".gpulaunch-sync"
NEVER = frozenset({".git", STATE, "__pycache__"})
ALWAYS_OUT = ("/gpulaunch-runs/",)
CHUNK = 1 << 20
_BIGGEST = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or symbolic link of the tree."""

    path: str  # relative, with "/"; bytes that are no UTF-8 as surrogates
    kind: str  # "f" or "l"
    mode: int  # permission bits; 0 for a link
    size: int
    content: str  # SHA-256, or where the link points

    def as_row(self) -> list[object]:
        """Return it as launcher/onhost/receive.py takes it."""
        return [self.path, self.kind, self.mode, self.size, self.content]


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything to be sent, in order of the paths. `notes` are what a person should know of it."""

    root: Path
    entries: tuple[Entry, ...]
    by_git: bool
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(entry.size for entry in self.entries)

    @property
    def content_hash(self) -> str:
        """One SHA-256 over paths, modes and contents: equal trees have equal ones."""
        digest = hashlib.sha256()
        for entry in self.entries:
            line = f"{entry.kind} {entry.mode & 0o100:o} {entry.content} {entry.path}\0"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


def read_tree(root: Path, *, exclude: tuple[str, ...], max_mib: int, logs: Path | None = None) -> Tree:
    """Return what is to be sent of a directory. `logs` is where runs are kept here: never a part of it.

    Raises SyncFailed: no such directory, a pattern that is none, a file that cannot be read, too large.
    """
    if not root.is_dir():
        raise SyncFailed(
            f"{root}: there is no such directory", "set sync.from to the tree that is to be sent"
        )
    root = root.resolve()
    if root in (Path("/"), home().resolve()):
        raise SyncFailed(
            f"{root} is no working tree: it holds everything else too",
            "start gpulaunch in the project's directory, or set sync.from",
        )
    out = _spec((*ALWAYS_OUT, *exclude, *_logs_inside(root, logs)))
    by_git = git.is_checkout(root)
    names = _by_git(root, "") if by_git else _by_walking(root)
    notes: list[str] = []
    found = [pair for name in names if not _is_out(name, out) and (pair := _look(root, name, notes))]
    _refuse_too_large(root, found, max_mib)
    return Tree(root, tuple(_entry(root, name, status) for name, status in found), by_git, tuple(notes))


def _spec(patterns: tuple[str, ...], origin: str = "sync.exclude") -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise SyncFailed(f"{origin}: {one_line(str(error))}", "patterns are those of .gitignore") from None


def _logs_inside(root: Path, logs: Path | None) -> tuple[str, ...]:
    if logs is None or not logs.resolve().is_relative_to(root) or logs.resolve() == root:
        return ()
    return (f"/{logs.resolve().relative_to(root).as_posix()}/",)


def _is_out(name: str, out: GitIgnoreSpec) -> bool:
    return not NEVER.isdisjoint(name.split("/")) or out.match_file(name)


def _by_git(root: Path, below: str) -> list[str]:
    """Return the files that git lists, those of submodules and of checkouts inside this one too."""
    names: list[str] = []
    for name in git.listed_files(root / below):
        path = below + name.rstrip("/")
        is_directory = (root / path).is_dir() and not (root / path).is_symlink()
        names += _by_git(root, path + "/") if is_directory and git.is_checkout(root / path) else [path]
    return names


def _by_walking(root: Path) -> list[str]:
    """Return the files of a tree without git; .gitignore files are honoured as git does."""
    return sorted(_walk(root, "", ()))


def _walk(root: Path, below: str, above: tuple[tuple[str, GitIgnoreSpec], ...]) -> Iterator[str]:
    rules = above
    ignore = root / below / ".gitignore"
    if ignore.is_file():
        rules = (*above, (below, _spec(tuple(_text(ignore).splitlines()), str(ignore))))
    try:
        with os.scandir(root / below) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(root / below, error) from None
    for entry in entries:
        is_directory = entry.is_dir(follow_symlinks=False)
        path = below + entry.name
        if entry.name in NEVER or _is_ignored(path + ("/" if is_directory else ""), rules):
            continue
        if is_directory:
            yield from _walk(root, path + "/", rules)
        else:
            yield path


def _is_ignored(path: str, rules: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    """Whether the deepest .gitignore that says anything of a path says to leave it out."""
    for below, spec in reversed(rules):
        said = spec.check_file(path.removeprefix(below)).include
        if said is not None:
            return said
    return False


def _look(root: Path, name: str, notes: list[str]) -> tuple[str, os.stat_result] | None:
    """Return a name with what is there; None for what is not sent: gone, or neither file nor link."""
    try:
        status = (root / name).lstat()
    except FileNotFoundError:
        return None  # tracked by git, removed from the tree
    except OSError as error:
        raise _unreadable(root / name, error) from None
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(root / name)  # noqa: PTH115 - Path would normalise it
        if Path(target).is_absolute() or os.path.normpath(f"{name}/../{target}").startswith(".."):
            notes.append(f"{name} is a link out of the tree: it is sent as a link to {target}")
        return name, status
    if not stat.S_ISREG(status.st_mode):
        if not stat.S_ISDIR(status.st_mode):
            notes.append(f"{name} is no file and is not sent")
        return None
    return name, status


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
        "leave out what is no code with .gitignore or sync.exclude, or raise sync.max_mib",
    )


def _entry(root: Path, name: str, status: os.stat_result) -> Entry:
    path = root / name
    if stat.S_ISLNK(status.st_mode):
        return Entry(name, "l", 0, 0, os.readlink(path))  # noqa: PTH115 - Path would normalise it
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            for data in iter(lambda: file.read(CHUNK), b""):
                digest.update(data)
                size += len(data)
    except OSError as error:
        raise _unreadable(path, error) from None
    return Entry(name, "f", stat.S_IMODE(status.st_mode) & 0o777, size, digest.hexdigest())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> SyncFailed:
    return SyncFailed(f"{path} cannot be read: {error.strerror}", "exclude it, or make it readable")
