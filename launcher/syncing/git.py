"""What git says of a working tree: its files, and what it is a version of. git is asked, never guessed at."""

from contextlib import closing
from pathlib import Path

from launcher.errors import HostError
from launcher.report.text import one_line
from launcher.syncing.errors import SyncFailed
from launcher.transports.base import Completed, Endpoint, iter_stdout
from launcher.transports.local import LocalConnection
from preflight.records import dataclass

MAX_DIFF = 256 << 10
"""Bytes of a diff that are kept with a run; more is no edit but another version."""
_ASK_S = 60.0
_NOT_THERE = (126, 127)


@dataclass(frozen=True, slots=True)
class Version:
    """What a tree is a version of. Without git, or before the first commit, `commit` is ""."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False
    diff: str = ""  # of tracked files against the commit
    diff_is_whole: bool = True


def is_checkout(root: Path) -> bool:
    """Whether a directory lies in a git checkout that the git here can read.

    Raises SyncFailed where it is one and git refuses it: what .gitignore hides must not be sent by mistake.
    """
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return False
    done = _git(root, "rev-parse", "--is-inside-work-tree")
    if done.exit_status in _NOT_THERE:
        return False
    if done.exit_status != 0:
        said = one_line(done.stderr.strip(), 300)
        raise SyncFailed(f"{root}: git cannot read this checkout: {said}", f"see `git -C {root} status`")
    return done.stdout.strip() == b"true"


def listed_files(root: Path) -> list[str]:
    """Return tracked and untracked files below a directory, what .gitignore hides left out.

    A directory among them (a submodule, a checkout of its own) ends in "/". Raises SyncFailed.
    """
    done = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if done.exit_status != 0:
        raise SyncFailed(f"{root}: git ls-files failed: {one_line(done.stderr.strip(), 300)}")
    names = {name.decode("utf-8", "surrogateescape") for name in done.stdout.split(b"\0") if name}
    return sorted(names)


def version_of(root: Path) -> Version:
    """Return what the tree is a version of."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if head.exit_status != 0:
        return Version()
    branch = _git(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    status = _git(root, "status", "--porcelain", "--", ".")
    diff, whole = _diff(root)
    return Version(
        commit=head.stdout.decode("ascii", "replace").strip(),
        branch=branch.stdout.decode("utf-8", "replace").strip(),
        dirty=bool(status.stdout.strip()),
        diff=diff.decode("utf-8", "replace"),
        diff_is_whole=whole,
    )


def _diff(root: Path) -> tuple[bytes, bool]:
    argv = _argv(root, "diff", "--no-ext-diff", "--no-color", "--no-textconv", "HEAD", "--", ".")
    data = bytearray()
    with closing(_here().start(argv)) as stream:
        stream.close_stdin()
        for part in iter_stdout(stream):
            stream.read_stderr()
            data += part
            if len(data) > MAX_DIFF:
                return bytes(data[:MAX_DIFF]), False
    return bytes(data), True


def _git(root: Path, *words: str) -> Completed:
    try:
        return _here().run(_argv(root, *words), timeout_s=_ASK_S)
    except HostError as failure:
        raise SyncFailed(f"{root}: git {words[0]}: {failure.detail}") from None


def _argv(root: Path, *words: str) -> tuple[str, ...]:
    return ("git", "--no-optional-locks", "-C", str(root), *words)


def _here() -> LocalConnection:
    return LocalConnection(Endpoint("localhost", "local", ""))
