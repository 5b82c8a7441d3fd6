"""Which files of a working tree are sent."""

import os
import shutil
from pathlib import Path

import pytest

from launcher.errors import ConfigError, SyncFailed
from launcher.sync import git as asking
from launcher.sync.tree import MAX_DEPTH, read_tree
from tests.launcher.sync_tree import git, paths, read, write

FILES = {
    "train.py": "print(1)\n",
    "pkg/a.py": "",
    "pkg/__pycache__/a.pyc": "x",
    "pkg/out.log": "",
    "pkg/keep.log": "",
    "data/big.bin": "0",
    ".gitignore": "*.log\n/data/\n",
    "pkg/.gitignore": "!keep.log\n",
    "gpulaunch-runs/r1/plan.json": "{}",
}
SENT = [".gitignore", "pkg/.gitignore", "pkg/a.py", "pkg/keep.log", "train.py"]


@pytest.mark.parametrize("versioned", [True, False], ids=["git", "no git"])
def test_what_gitignore_leaves_out_is_not_sent(tmp_path: Path, *, versioned: bool) -> None:
    write(tmp_path, FILES)
    if versioned:
        git(tmp_path, "init", "-q")
    tree = read(tmp_path)
    assert paths(tree) == SENT
    assert tree.from_git is versioned


def test_a_tracked_file_is_sent_whatever_gitignore_says_and_a_removed_one_is_not(tmp_path: Path) -> None:
    write(tmp_path, {"a.log": "tracked", "gone.py": "", ".gitignore": "*.log\n"})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", ".")
    (tmp_path / "gone.py").unlink()
    assert paths(read(tmp_path)) == [".gitignore", "a.log"]


def test_a_checkout_inside_the_checkout_is_sent_by_its_own_rules(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "lib/b.py": "", "lib/b.tmp": "", "lib/.gitignore": "*.tmp\n"})
    git(tmp_path, "init", "-q")
    git(tmp_path / "lib", "init", "-q")
    assert paths(read(tmp_path)) == ["a.py", "lib/.gitignore", "lib/b.py"]


def test_excluded_patterns_are_left_out_of_a_checkout_too(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "notes/x.md": "", "b.ckpt": ""})
    git(tmp_path, "init", "-q")
    assert paths(read(tmp_path, "*.ckpt", "notes/")) == ["a.py"]


def test_a_subdirectory_of_a_checkout_is_a_tree(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "sub/b.py": ""})
    git(tmp_path, "init", "-q")
    assert paths(read(tmp_path / "sub")) == ["b.py"]


def test_the_directory_of_the_runs_here_is_never_sent(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "my-runs/r/plan.json": ""})
    tree = read_tree(tmp_path, exclude=(), max_mib=1, logs=tmp_path / "my-runs")
    assert paths(tree) == ["a.py"]


def test_a_link_is_sent_as_a_link_and_one_that_leaves_the_tree_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": ""})
    (tmp_path / "inside").symlink_to("a.py")
    (tmp_path / "outside").symlink_to("../elsewhere")
    tree = read(tmp_path)
    assert [(entry.path, entry.kind, entry.content) for entry in tree.entries[1:]] == [
        ("inside", "l", "a.py"),
        ("outside", "l", "../elsewhere"),
    ]
    assert tree.notes == ("outside is a link out of the tree: it is sent as a link to ../elsewhere",)


def test_what_is_neither_file_nor_link_is_told_and_not_sent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tree = read(tmp_path)
    assert tree.entries == ()
    assert tree.notes == ("pipe is not a regular file and is not sent",)


@pytest.mark.parametrize(
    "first_line",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----",
        "PuTTY-User-Key-File-3: ssh-ed25519",
    ],
)
def test_a_private_key_stays_on_this_machine(tmp_path: Path, first_line: str) -> None:
    write(
        tmp_path, {"a.py": "", "key.pem": f"{first_line}\nb3BlbnNzaC1rZXk\n", "key.pub": "ssh-ed25519 AAAA\n"}
    )
    for _ in range(2):  # what is kept of the first reading changes nothing
        tree = read(tmp_path)
        assert paths(tree) == ["a.py", "key.pub"]
        assert tree.notes == ("key.pem is a private key: it is not sent",)


def test_what_git_lfs_has_not_fetched_is_named(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    write(tmp_path, {"m.bin": pointer, "n.bin": "\0" * 99, "big.bin": pointer + "x" * 4096})
    assert read(tmp_path).notes == ()
    write(tmp_path, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    assert read(tmp_path).notes == (
        "m.bin is a pointer of Git LFS: `git lfs pull` puts the file in its place",
    )


def test_a_name_of_any_bytes_is_sent(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    git(tmp_path, "init", "-q")
    assert paths(read(tmp_path)) == ["caf\udce9"]
    assert read(tmp_path).content_hash


def test_too_large_a_tree_is_refused_with_its_biggest_files(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "small.bin": "0" * 1000, "model.bin": "0" * (2 << 20)})
    with pytest.raises(SyncFailed, match=r"the biggest: model.bin \(2 MiB\), small.bin") as failure:
        read_tree(tmp_path, exclude=(), max_mib=1)
    assert "sync.exclude" in failure.value.fix
    assert read_tree(tmp_path, exclude=("model.bin",), max_mib=1).entries


@pytest.mark.parametrize("versioned", [True, False], ids=["git", "no git"])
def test_a_directory_that_is_excluded_is_not_read(tmp_path: Path, *, versioned: bool) -> None:
    write(tmp_path, {"a.py": "", "deep/" + "d/" * MAX_DEPTH + "b.py": ""})
    if versioned:
        git(tmp_path, "init", "-q")
    with pytest.raises(SyncFailed, match=r"more than \d+ directories"):
        read(tmp_path)
    assert paths(read(tmp_path, "deep/")) == ["a.py"]


def test_what_git_could_not_read_is_not_left_out_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git reads a nested directory with one descriptor a level, warns, and ends with 0."""
    root, shims = tmp_path / "tree", tmp_path / "bin"
    write(root, {"a.py": "", "deep/" + "d/" * 60 + "b.py": ""})
    git(root, "init", "-q")
    write(shims, {"git": f'#!/bin/sh\nulimit -n 40\nexec {shutil.which("git")} "$@"\n'})
    (shims / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{os.environ['PATH']}")
    with pytest.raises(SyncFailed, match=r"/tree/deep/d/.* cannot be read: Too many open files") as failure:
        read(root)
    assert "ulimit -n" in failure.value.fix
    assert paths(read(root, "deep/")) == ["a.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_directory_that_cannot_be_entered_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "locked/b.py": ""})
    (tmp_path / "locked").chmod(0o644)
    with pytest.raises(SyncFailed, match=r"/locked.* cannot be read: Permission denied") as failure:
        read(tmp_path)
    assert failure.value.fix == "exclude it, or make it readable"
    assert paths(read(tmp_path, "locked/")) == ["a.py"]


def test_the_home_directory_is_no_tree() -> None:
    with pytest.raises(ConfigError, match="is not a working tree"):
        read(Path.home())


def test_a_pattern_that_is_none_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sync\.exclude"):
        read(tmp_path, "!")


def test_the_content_hash_is_that_of_names_contents_and_what_can_be_run(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "1"})
    first = read(tmp_path).content_hash
    os.utime(tmp_path / "a.py", (0, 0))
    assert read(tmp_path).content_hash == first
    (tmp_path / "a.py").chmod(0o755)
    second = read(tmp_path).content_hash
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, read(tmp_path).content_hash}) == 3


def test_a_version_is_the_commit_with_the_edits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "work")
    assert asking.read_git_state(tmp_path) == asking.GitState()
    write(tmp_path, {"a.py": "1\n"})
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    clean = asking.read_git_state(tmp_path)
    assert (len(clean.commit), clean.branch, clean.dirty, clean.diff) == (40, "work", False, "")
    write(tmp_path, {"a.py": "2\n"})
    edited = asking.read_git_state(tmp_path)
    assert edited.dirty
    assert "-1\n+2\n" in edited.diff
    assert edited.diff_complete


def test_a_diff_is_kept_up_to_a_limit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {"a.txt": "1\n"})
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    write(tmp_path, {"a.txt": "line\n" * 100_000})
    version = asking.read_git_state(tmp_path)
    assert len(version.diff) == asking.MAX_DIFF
    assert not version.diff_complete


def test_a_checkout_that_git_refuses_is_not_sent_by_other_rules(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": "nonsense", "secret.env": ""})
    with pytest.raises(SyncFailed, match="git cannot read this checkout"):
        read(tmp_path)
