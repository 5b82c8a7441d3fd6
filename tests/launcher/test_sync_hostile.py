"""A repository of anybody's: to read it for a sync runs nothing of it, takes no time and stays inside it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.errors import SyncFailed
from launcher.sync import git as asking
from launcher.sync.ignore import MAX_PATTERNS, Ignore
from launcher.sync.tree import MAX_DEPTH, read_tree
from tests.lab import needs
from tests.launcher.sync_tree import git, paths, read, write

HOOKS = ("post-index-change", "pre-commit", "fsmonitor-watchman", "post-checkout", "reference-transaction")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that leaves a trace."""
    path = tmp_path / "program"
    path.write_text(f'#!/bin/sh\necho "$0 $*" >>{tmp_path}/ran\ncat\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def ran(tmp_path: Path) -> Callable[[], str]:
    """Return what has run since it was asked last."""
    trace = tmp_path / "ran"

    def read_trace() -> str:
        text = trace.read_text() if trace.exists() else ""
        trace.unlink(missing_ok=True)
        return text

    return read_trace


def checkout(root: Path, files: dict[str, str]) -> Path:
    write(root, files)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def read_all(root: Path) -> asking.GitState:
    tree = read(root)
    return asking.read_git_state(tree.root, tree.checkouts)


@pytest.mark.parametrize(
    "key",
    [
        # All of git 2.39's 799 settings, tried one by one, that run something under plain git's commands:
        "core.fsmonitor",
        "diff.external",
        "filter.x.clean",
        "filter.x.process",
        "diff.x.command",
        "diff.x.textconv",
        # and those that one would fear:
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "credential.helper",
        "pager.status",
        "alias.status",
        "gpg.program",
        "filter.a b.clean",
    ],
)
@pytest.mark.parametrize("place", [".git/config", "included"])
def test_no_program_of_a_repositorys_settings_runs(
    key: str, place: str, tmp_path: Path, program: Path, ran: Callable[[], str]
) -> None:
    root = checkout(
        tmp_path / "r", {"a.py": "1\n", ".gitattributes": "*.py filter=x diff=x\n*.md filter='a b'\n"}
    )
    if place == "included":
        git(root, "config", "includeIf.gitdir:/.path", str(tmp_path / "other"))
        git(root, "config", "--file", str(tmp_path / "other"), key, str(program))
    else:
        git(root, "config", key, str(program))
    write(root, {"a.py": "2\n"})
    for words in (("status", "--porcelain"), ("diff", "HEAD")):
        subprocess.run(["git", *words], cwd=root, capture_output=True, check=False)
    runs_otherwise = key in {
        "core.fsmonitor",
        "diff.external",
        "filter.x.clean",
        "diff.x.command",
        "diff.x.textconv",
    }
    assert ("program" in ran()) >= runs_otherwise, "the test tests nothing"
    version = read_all(root)
    assert ran() == ""
    assert version.dirty
    assert "-1\n+2\n" in version.diff


def test_no_hook_runs(tmp_path: Path, program: Path, ran: Callable[[], str]) -> None:
    root = checkout(tmp_path / "r", {"a.py": "1\n"})
    for name in HOOKS:
        (root / ".git/hooks" / name).write_text(program.read_text())
        (root / ".git/hooks" / name).chmod(0o755)
    os.utime(root / "a.py", (0, 0))  # an index that git would like to refresh
    read_all(root)
    assert ran() == ""


def test_what_a_partial_clone_lacks_is_not_fetched(
    tmp_path: Path, program: Path, ran: Callable[[], str]
) -> None:
    root = checkout(tmp_path / "r", {"a.py": "1\n"})
    blob = subprocess.run(
        ["git", "rev-parse", "HEAD:a.py"], cwd=root, capture_output=True, text=True, check=True
    )
    (root / ".git/objects" / blob.stdout[:2] / blob.stdout.strip()[2:]).unlink()
    program.write_text(program.read_text().replace("cat\n", "exit 1\n"))
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program} %S",
        "protocol.ext.allow": "always",
    }.items():
        git(root, "config", key, value)
    write(root, {"a.py": "2\n"})
    subprocess.run(["git", "diff", "HEAD"], cwd=root, capture_output=True, check=False)
    assert "program" in ran(), "the test tests nothing"
    assert read_all(root).dirty
    assert ran() == ""


def test_a_checkout_inside_has_settings_of_its_own_which_run_nothing_either(
    tmp_path: Path, program: Path, ran: Callable[[], str]
) -> None:
    root = checkout(tmp_path / "r", {"a.py": "1\n"})
    inner = checkout(root / "lib", {"b.py": "1\n", ".gitattributes": "*.py filter=x\n"})
    git(root, "-c", "advice.addEmbeddedRepo=false", "add", "lib")
    git(root, "commit", "-qm", "two")
    git(inner, "config", "filter.x.clean", str(program))
    git(inner, "config", "core.fsmonitor", str(program))
    ran()
    assert not read_all(root).dirty
    write(inner, {"b.py": "2\n"})
    assert read_all(root).dirty, "an edit in it is one of the tree"
    assert ran() == ""


def test_a_bare_repository_among_the_files_is_not_asked(
    tmp_path: Path, program: Path, ran: Callable[[], str]
) -> None:
    root = checkout(tmp_path / "r", {"a.py": "1\n"})
    git(tmp_path, "init", "-q", "--bare", str(root / "trap"))
    git(tmp_path, "--git-dir", str(root / "trap"), "config", "core.fsmonitor", str(program))
    git(tmp_path, "--git-dir", str(root / "trap"), "config", "core.bare", "false")
    git(tmp_path, "--git-dir", str(root / "trap"), "config", "core.worktree", str(root / "trap"))
    write(root / "trap", {"b.py": "1\n"})
    with pytest.raises(SyncFailed, match="git cannot read this checkout"):
        read_all(root / "trap")
    assert ran() == ""


def test_variables_of_another_repository_are_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = checkout(tmp_path / "r", {"a.py": "1\n"})
    other = checkout(tmp_path / "other", {"b.py": "1\n"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
    assert paths(read(root)) == ["a.py"]


def test_what_lies_behind_a_link_is_not_the_trees(tmp_path: Path) -> None:
    write(tmp_path, {"home/.ssh/id": "secret", "r/keys/.ssh/id": "x", "r/a.py": ""})
    root = checkout(tmp_path / "r", {})
    (root / "keys/.ssh/id").unlink()
    (root / "keys/.ssh").rmdir()
    (root / "keys").rmdir()
    (root / "keys").symlink_to(tmp_path / "home")  # git still lists keys/.ssh/id
    assert paths(read(root)) == ["a.py", "keys"]


def test_the_output_of_gpulaunch_is_left_out_and_said(tmp_path: Path) -> None:
    write(tmp_path, {"r/a.py": "", "r/kept.log": ""})
    code = (
        "import sys; from pathlib import Path; from launcher.sync.tree import read_tree\n"
        "tree = read_tree(Path(sys.argv[1]), exclude=(), max_mib=1)\n"
        "Path(sys.argv[2]).write_text(repr(([e.path for e in tree.entries], tree.notes)))\n"
    )
    with (tmp_path / "r/run.log").open("w") as out, (tmp_path / "r/err.log").open("w") as err:
        argv = [sys.executable, "-c", code, str(tmp_path / "r"), str(tmp_path / "told")]
        subprocess.run(argv, stdout=out, stderr=err, check=True, cwd=Path(__file__).parents[2])
    sent, notes = eval((tmp_path / "told").read_text())
    assert sent == ["a.py", "kept.log"]
    assert "run.log is where the output of gpulaunch goes: it is not sent" in notes
    assert "err.log is where the output of gpulaunch goes: it is not sent" in notes


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A tree of a thousand directories inside each other; pytest's own cleaning would fail on it."""
    below = root = tmp_path / "deep"
    root.mkdir()
    for _ in range(1000):
        below /= "d"
        below.mkdir()
    (below / "a.py").write_text("")
    yield root
    subprocess.run(["rm", "-rf", str(root)], check=True)


@pytest.mark.parametrize("versioned", [True, False], ids=["git", "no git"])
def test_many_directories_inside_each_other_are_refused_in_one_line(deep: Path, *, versioned: bool) -> None:
    if versioned:
        needs.require_descriptors(1100)  # git holds every directory above the one that it reads
        git(deep, "init", "-q")
    with pytest.raises(SyncFailed, match=f"more than {MAX_DEPTH} directories") as failure:
        read(deep)
    assert "sync.exclude: [d/]" in failure.value.fix
    (deep / ".gitignore").write_text("/d/d/\n")
    assert paths(read(deep)) == [".gitignore"]


def test_a_pattern_of_many_stars_takes_no_time(tmp_path: Path) -> None:
    stars = [
        "*a" * 60 + "*b",
        "**/a" * 40 + "/b",
        "/" + "**/" * 60 + "x",
        "[a-b]*" * 40 + "c",
        "?*" * 60 + "c",
    ]
    write(tmp_path, {".gitignore": "\n".join(stars), "a" * 250: "", "/".join("a" * 150): ""})
    assert len(paths(read(tmp_path, *stars))) == 3


def test_too_long_a_list_of_patterns_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "x\n" * (MAX_PATTERNS + 1)})
    with pytest.raises(SyncFailed, match=r"\.gitignore: 5001 patterns are more than 5000"):
        read_tree(tmp_path, exclude=(), max_mib=1)


PATTERNS = (
    *(
        "a",
        "/a",
        "a/",
        "*.b",
        "a*b",
        "a**b",
        "**/b",
        "a/**",
        "a/**/b",
        "**/a/**",
        "*/b",
        "a/*",
        "!a",
        "\\!a",
        "\\#a",
    ),
    *(
        "#a",
        "a ",
        "a\\ ",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-b]?",
        "[]a]",
        "[b-a]",
        "[a-]",
        "[[:alpha:]]b",
        "[",
        "a\\",
        "\\*",
    ),
    *(
        "?",
        "??",
        "",
        "/",
        "//",
        "!",
        "**",
        "***",
        "é",
        "?é",
        "[é]",
        "a\\/b",
        "[a/b]",
        "[[:nonsense:]]",
        "*\r",
    ),
)
NAMES = ("a", "b", "ab", "a.b", "aab", "é", "aé", "!a", "#a", "*", "a ", "[", "A")


def test_a_pattern_names_what_it_names_for_git(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    every = sorted(
        {*NAMES, *(f"{x}/{y}" for x in NAMES for y in NAMES), "a/x/b", "x/a/b", "a/x/y/b", "x/a/y/b/z"}
    )
    for pattern in PATTERNS:
        (tmp_path / ".gitignore").write_bytes(pattern.encode() + b"\n")
        done = subprocess.run(
            ["git", "check-ignore", "--no-index", "-z", "--stdin"],
            cwd=tmp_path,
            input="\0".join(every).encode(),
            capture_output=True,
            check=False,
        ).stdout.decode()
        ours = Ignore.from_lines([pattern])
        assert [path for path in every if ours.excludes(path)] == done.split("\0")[:-1], pattern
