"""What git says of a working tree: its files, and what it is a version of. git is asked, never guessed at.

The configuration of a repository can name programs, and a repository may be anybody's: none of them runs
locally. git has no option for that, so each way to name one is closed: by a setting on the command line,
which counts more than a file, or by a variable. What git is not asked for (fetch, commit, merge) needs no
closing.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from launcher.errors import HostError, SyncFailed
from launcher.text import one_line
from launcher.transports.base import CommandResult, Endpoint, iter_stdout
from launcher.transports.local import LocalConnection
from preflight import regex as re
from preflight.frozen import dataclass

MAX_DIFF = 256 << 10  # bytes of a diff that are kept with a run; more is not an edit but another version
_ASK_S = 60.0
_NO_SUBMODULES = "--ignore-submodules=dirty"
"""git would look for edits in them with their own settings; we ask each of them ourselves."""

_CLOSED = (
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
    "diff.external=",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
    "safe.bareRepository=explicit",  # a bare repository among the files of another is anybody's
)
_VARIABLES = {
    "LC_ALL": "C",  # its warnings are read
    "GIT_ALLOW_PROTOCOL": "none",  # what a partial clone lacks is not fetched: no remote helper, no ssh
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_KEPT = frozenset(
    {
        *("GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_COUNT"),
        "GIT_CONFIG_PARAMETERS",
    }
)
_NOT_THERE = (126, 127)
_NOT_READ = re.compile(
    rb"^warning: (?:could not open directory|unable to access) '([^/'].*)': (.*)$", re.MULTILINE
)
"""What git leaves out of a tree, or does not hide of it, and ends with 0 all the same (dir.c, wrapper.c)."""


@dataclass(frozen=True, slots=True)
class GitState:
    """What a tree is a version of. Without git, or before the first commit, `commit` is ""."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False
    diff: str = ""  # of tracked files against the commit
    diff_complete: bool = True


def fix_of(why: str) -> str:
    """Return what helps where a part of the tree cannot be read. `why`: the system's words."""
    return "raise the limit: `ulimit -n 4096`" if "open files" in why else "exclude it, or make it readable"


def is_checkout(root: Path) -> bool:
    """Whether a directory lies in a git checkout that the local git can read.

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


def list_files(root: Path, is_out: Callable[[str], bool]) -> list[str]:
    """Return tracked and untracked files below a directory, what .gitignore hides left out.

    A directory among them (a submodule, a checkout of its own) ends in "/". Raises SyncFailed, also where git
    cannot read a directory or its .gitignore, unless that directory `is_out`: not sent anyway.
    """
    done = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if done.exit_status != 0:
        raise SyncFailed(f"{root}: git ls-files failed: {one_line(done.stderr.strip(), 300)}")
    for path, why in _NOT_READ.findall(done.stderr):
        name = path.decode("utf-8", "surrogateescape")
        if not is_out(name.rpartition("/")[0]):
            raise SyncFailed(
                f"{root / name} cannot be read: {one_line(why)}", fix_of(why.decode("ascii", "replace"))
            )
    names = {name.decode("utf-8", "surrogateescape") for name in done.stdout.split(b"\0") if name}
    return sorted(names)


def find_ignore_rule(root: Path, name: str) -> str:
    """Return which line makes git ignore a path, such as `.gitignore:3 (data/)`; "" for none."""
    done = _git(root, "check-ignore", "-v", "--", name)
    found = re.match(r"(.+?):(\d+):([^!].*)\t", done.stdout.decode("utf-8", "replace"))
    return f"{one_line(found[1], 120)}:{found[2]} ({one_line(found[3], 80)})" if found else ""


def read_git_state(root: Path, checkouts: Sequence[str] = ()) -> GitState:
    """Return what the tree is a version of; `checkouts` are those inside it, whose edits count too."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if head.exit_status != 0:
        return GitState()
    branch = _git(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    diff, whole = _diff(root)
    return GitState(
        commit=head.stdout.decode("ascii", "replace").strip(),
        branch=branch.stdout.decode("utf-8", "replace").strip(),
        dirty=any(_is_dirty(root / below) for below in ("", *checkouts)),
        diff=diff.decode("utf-8", "replace"),
        diff_complete=whole,
    )


def _is_dirty(root: Path) -> bool:
    status = _git(root, "status", "--porcelain", _NO_SUBMODULES, "--", ".", settings=_no_filters(root))
    return bool(status.stdout.strip())


def _diff(root: Path) -> tuple[bytes, bool]:
    words = ("diff", "--no-ext-diff", "--no-color", "--no-textconv", "--submodule=short", _NO_SUBMODULES)
    data = bytearray()
    with closing(_here().start(_argv(root, *words, "HEAD", "--", ".", settings=_no_filters(root)))) as stream:
        stream.close_stdin()
        for part in iter_stdout(stream):
            stream.read_stderr()
            data += part
            if len(data) > MAX_DIFF:
                return bytes(data[:MAX_DIFF]), False
    return bytes(data), True


def _no_filters(root: Path) -> tuple[str, ...]:
    """Return the settings that turn off every filter driver, by whichever file it is configured.

    One of the user's own (git-lfs) reads the repository's settings in turn, and those can name programs too.
    A file that has to pass through a filter to be compared counts as edited.
    """
    listing = _git(root, "config", "--list", "-z", "--name-only")
    names = {key.rpartition(b".")[0] for key in listing.stdout.split(b"\0") if key.startswith(b"filter.")}
    strange = sorted(name for name in names if b"=" in name or b"\n" in name)
    if listing.exit_status != 0 or strange:
        said = one_line(strange[0] if strange else listing.stderr.strip(), 300)
        raise SyncFailed(
            f"{root}: git's settings cannot be used: {said}", f"see `git -C {root} config --list`"
        )
    drivers = sorted(name.decode("utf-8", "surrogateescape") for name in names)
    return tuple(
        f"{driver}.{setting}"
        for driver in drivers
        for setting in ("clean=", "smudge=", "process=", "required=false")
    )


def _git(root: Path, *words: str, settings: Sequence[str] = ()) -> CommandResult:
    try:
        return _here().run(_argv(root, *words, settings=settings), timeout_s=_ASK_S)
    except HostError as failure:
        raise SyncFailed(f"{root}: git {words[0]}: {failure.detail}") from None


def _argv(root: Path, *words: str, settings: Sequence[str] = ()) -> tuple[str, ...]:
    closed = [word for setting in (*_CLOSED, *settings) for word in ("-c", setting)]
    return ("git", "--no-pager", "--no-optional-locks", *closed, "-C", str(root), *words)


def _here() -> LocalConnection:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _is_kept(name)}
    return LocalConnection(Endpoint("localhost", "local", ""), {**own, **_VARIABLES})


def _is_kept(name: str) -> bool:
    """Whether a variable says where git and the user's own settings are, not which repository is meant."""
    return name in _KEPT or name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
