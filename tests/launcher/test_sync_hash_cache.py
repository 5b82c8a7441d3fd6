"""Hashes of local files that are kept from one sync to the next: they hold, or they are not used."""

import errno
import hashlib
import os
import stat
import time
from pathlib import Path

import pytest

from launcher.onhost.sync.errors import describe_os_error
from launcher.onhost.sync.safe_dir import SafeDirectory
from launcher.onhost.sync.target_state import TargetState, TreeEntry
from launcher.sync import hash_cache
from launcher.sync.hash_cache import HashCache
from launcher.sync.tree import SourceTree
from tests.launcher.sync_tree import read, write

OLD_NS = -10 * 10**9  # nothing is so fresh that its hash would not be kept


@pytest.fixture(autouse=True)
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every tree be worth a cache, and every file settled; return where the caches are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hash_cache, "_WORTH", 0)
    monkeypatch.setattr(hash_cache, "_SETTLED_NS", OLD_NS)
    return tmp_path / "cache/gpulaunch/trees"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/train.py").write_text("a = 1\n")
    return tmp_path / "tree"


def is_true(tree: SourceTree) -> bool:
    """Whether every hash is that of what the file holds now."""
    return all(
        each.content == hashlib.sha256((tree.root / each.path).read_bytes()).hexdigest()
        for each in tree.entries
        if each.kind == "f"
    )


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of files that are added to a cache from now on, each because it was read."""
    reads: list[str] = []
    add = HashCache.add

    def counted(self: HashCache, path: str, status: os.stat_result, digest: str) -> None:
        reads.append(path)
        add(self, path, status, digest)

    monkeypatch.setattr(HashCache, "add", counted)
    return reads


def test_what_has_not_changed_is_not_read_again(
    root: Path, trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = count_reads(monkeypatch)
    (root / "other.py").write_text("b = 1\n")
    first = read(root)
    (root / "other.py").write_text("b = 22\n")
    second = read(root)
    assert reads == ["other.py", "train.py", "other.py"]
    assert is_true(second)
    assert second.content_hash != first.content_hash
    (cache,) = trees.iterdir()
    assert cache.stat().st_mode & 0o777 == 0o600


def test_an_edit_that_restores_size_and_time_is_seen(root: Path) -> None:
    script = root / "train.py"
    before = script.stat()
    read(root)
    while script.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of files ticks every few ms
        script.write_text("a = 2\n")  # in place: the same inode
        os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert is_true(read(root))
    (root / "new").write_text("a = 3\n")
    os.utime(root / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (root / "new").replace(script)
    assert is_true(read(root))


def test_a_file_that_changed_just_now_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_cache, "_SETTLED_NS", 2 * 10**9)
    reads = count_reads(monkeypatch)
    read(root)
    read(root)
    assert reads == ["train.py", "train.py"]
    later_ns = time.time_ns() + 3 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    read(root)
    read(root)
    assert reads == ["train.py"] * 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"\xff\x00garbage",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"train.py"', b'"trainXpy"'),
        lambda data: b"[" * 100_000,
        lambda data: hashlib.sha256(b"[]").hexdigest().encode() + b"\n[]",
        lambda data: hashlib.sha256(b"{}").hexdigest().encode() + b"\n{}",
    ],
    ids=["empty", "bytes", "cut", "altered", "deep", "list", "no-schema"],
)
def test_a_spoiled_cache_is_no_cache(root: Path, trees: Path, spoil: object) -> None:
    read(root)
    (cache,) = trees.iterdir()
    cache.write_bytes(spoil(cache.read_bytes()))  # type: ignore[operator]
    assert is_true(read(root))
    assert len(HashCache(root)._known) == 1  # it has been written anew


def test_a_cache_that_cannot_be_written_or_is_a_link_is_none(root: Path, trees: Path, tmp_path: Path) -> None:
    trees.parent.mkdir(parents=True)
    trees.write_text("a file where the directory should be")
    assert is_true(read(root))
    trees.unlink()
    read(root)
    (cache,) = trees.iterdir()
    (tmp_path / "elsewhere").write_bytes(cache.read_bytes())
    cache.unlink()
    cache.symlink_to(tmp_path / "elsewhere")
    assert HashCache(root)._known == {}
    assert is_true(read(root))


def test_caches_are_bounded(root: Path, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_cache, "_MOST_TREES", 2)
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(name)
        read(tmp_path / name)
    assert len(list(trees.iterdir())) == 2
    monkeypatch.setattr(hash_cache, "_LARGEST", 10)
    read(root)
    assert HashCache(root)._known == {}


def test_a_forgotten_cache_is_made_anew(root: Path, trees: Path) -> None:
    read(root)
    HashCache(root).forget()
    assert list(trees.iterdir()) == []
    HashCache(root).forget()
    assert is_true(read(root))


def test_a_host_trusts_what_it_installed_once_the_clock_has_gone_on(root: Path) -> None:
    os.utime(root / "train.py", ns=(1, 1_700_000_000_000_000_001))
    found = (root / "train.py").stat()
    entry = TreeEntry("train.py", "f", 0o644, found.st_size, "0" * 64)
    written_ns, later_ns = found.st_mtime_ns, found.st_ctime_ns + 10**9

    def is_trusted(device: int, written_ns: int, now_ns: int, sent: TreeEntry = entry) -> bool:
        state = TargetState(SafeDirectory(str(root)), now_ns)
        state.trust(sent, device, written_ns, now_ns)
        return state.record.contains("train.py")

    assert is_trusted(found.st_dev, written_ns, later_ns)
    assert not is_trusted(found.st_dev, written_ns, found.st_ctime_ns)  # within a tick of the rename
    assert not is_trusted(found.st_dev, written_ns + 1, later_ns)  # somebody has written to it
    assert not is_trusted(found.st_dev + 1, written_ns, later_ns)  # another clock
    assert not is_trusted(found.st_dev, written_ns, later_ns, entry._replace(size=1))
    assert not is_trusted(found.st_dev, written_ns, later_ns, entry._replace(path="train.py/x"))
    os.utime(root / "train.py", ns=(1, 1_700_000_000 * 10**9))  # a file system that counts whole seconds
    assert not is_trusted(found.st_dev, 1_700_000_000 * 10**9, later_ns)


def test_a_host_looks_once_at_each_file_that_it_has_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "there"
    write(root, {"train.py": "1\n", "pkg/a.py": "a\n"})
    looked: list[str] = []
    stat_of = SafeDirectory.stat

    def look(at: SafeDirectory, parts: list[str]) -> os.stat_result | None:
        looked.append("/".join(parts))
        return stat_of(at, parts)

    monkeypatch.setattr(SafeDirectory, "stat", look)
    state = TargetState(SafeDirectory(str(root)), time.time_ns())
    for path, text in (("train.py", b"1\n"), ("pkg/a.py", b"a\n"), ("pkg/b.py", b"")):
        mode = stat.S_IMODE((root / path).stat().st_mode) if text else 0o644
        entry = TreeEntry(path, "f", mode, len(text), hashlib.sha256(text).hexdigest())
        assert state.has(entry) is bool(text)
    assert looked == ["train.py", "pkg/a.py", "pkg/b.py"]
    assert not state.modes


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP])
def test_a_directory_that_cannot_be_made_comes_with_a_fix(number: int) -> None:
    refused = describe_os_error(OSError(number, os.strerror(number), "x"), "/proc/nope")
    assert refused.message == f"/proc/nope/x: {os.strerror(number)}"
    assert refused.fix == "set sync.to to a directory that can be made"


@pytest.mark.parametrize(("number", "word"), [(errno.ENOSPC, "no space left"), (errno.EDQUOT, "your quota")])
def test_a_quota_that_is_used_up_is_no_disk_that_is_full(number: int, word: str) -> None:
    refused = describe_os_error(OSError(number, os.strerror(number), "x"), "/data")
    assert refused.message.startswith(word)
    assert "another disk" in refused.fix
