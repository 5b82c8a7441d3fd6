"""Directories that hosts share: seen as they are before a launch, and swept of nothing that another uses."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.errors import SyncFailed
from launcher.onhost import answer
from launcher.onhost.sync.install import copy_entry
from launcher.onhost.sync.lock import read_boot_id, remove_stale, take_lock
from launcher.onhost.sync.safe_dir import SafeDirectory
from launcher.onhost.sync.staging import remove_tree
from launcher.sync.nfs_cache import await_sight, collect_tree_stamps
from launcher.sync.tree import read_tree
from tests.launcher.sync_tree import receiver, sync, write

A_DAY_S = 86400.0


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write(tmp_path / "here", {"train.py": "1\n", "pkg/a.py": "a\n"})
    return tmp_path / "here"


@pytest.mark.slow
def test_a_host_that_shows_an_old_file_is_waited_for(here: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    sync(here, there)
    (there / "train.py").write_text("old and longer\n")  # as its file system's cache shows it
    (there / "pkg/a.py").unlink()
    tree = read_tree(here, exclude=(), max_mib=16)
    said: list[str] = []

    def caught_up(words: str) -> None:
        said.append(words)
        for name in ("train.py", "pkg/a.py"):
            write(there, {name: (here / name).read_text()})
            times = (here / name).stat()
            os.utime(there / name, ns=(times.st_atime_ns, times.st_mtime_ns))

    with receiver(there) as host:
        with pytest.raises(SyncFailed) as failure:
            await_sight(host, tree, lambda: collect_tree_stamps(tree), "node-1", said.append, within_s=-1.0)
        assert "2 of 2 files differ, as " in failure.value.message
        assert "actimeo" in failure.value.fix
        await_sight(host, tree, lambda: collect_tree_stamps(tree), "node-1", caught_up)
    assert said == ["sync: titan does not see yet what is new in the directory of node-1; waiting"]


def test_an_edit_of_equal_size_is_another_file(here: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    sync(here, there)
    tree = read_tree(here, exclude=(), max_mib=16)
    with receiver(there) as host:
        expected = host.stamps(["train.py", "pkg/a.py", "absent.py", "train.py/x"])
        assert expected[2:] == (None, None)
        os.utime(there / "train.py", (1.0, 1.0))
        assert host.stamps(["train.py"]) == ((2, 1),)
        stamps = [expected[("train.py", "pkg/a.py").index(entry.path)] for entry in tree.entries]
        with pytest.raises(SyncFailed, match=r"1 of 2 files differ, as train\.py"):
            await_sight(host, tree, lambda: stamps, "node-1", lambda _: None, within_s=-1.0)


def test_what_a_sync_of_another_host_is_bringing_is_not_swept(tmp_path: Path) -> None:
    target = tmp_path / "there"
    directory = SafeDirectory(str(target))
    state = target / ".gpulaunch-sync"
    for nonce, boot in (("killed", read_boot_id()), ("live", "of another host"), ("dead", "of another host")):
        (state / f"nonce-{nonce}").write_text(boot)
        (state / f"incoming-{nonce}").mkdir()
    (state / "incoming-ended").mkdir()
    write(tmp_path / "other", {"kept": "x"})
    write(state / "incoming-dead", {"0": "x", "tree/a/b": "y"})
    (state / "incoming-dead/1").symlink_to(tmp_path / "other")
    for name in ("incoming-dead", "nonce-dead"):
        old = (state / name).stat().st_mtime - A_DAY_S - 60
        os.utime(state / name, (old, old))
    lock, is_locked = take_lock(directory)
    assert is_locked
    remove_stale(directory, is_locked=False)  # a file system without locks
    assert sorted(path.name for path in state.glob("incoming-*")) == [
        "incoming-ended",
        "incoming-killed",
        "incoming-live",
    ]
    remove_stale(directory, is_locked=True)
    assert [path.name for path in state.glob("incoming-*")] == ["incoming-live"]
    assert {path.name for path in state.glob("nonce-*")} == {"nonce-killed", "nonce-live"}
    os.close(lock)
    assert (tmp_path / "other/kept").exists()


@pytest.mark.parametrize(
    "work", [lambda here, to: copy_entry(f"{here}/train.py", to), lambda here, _: remove_tree(str(here))]
)
def test_a_host_says_that_it_copies_or_sweeps(
    here: Path,
    tmp_path: Path,
    work: Callable[[Path, str], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(answer, "_last_beat", [float("-inf")])
    work(here, str(tmp_path / "copy"))
    assert capfd.readouterr().out.count('{"busy": true}') == 1


def test_hosts_that_share_a_directory_with_another_or_with_the_tree_itself_launch_at_once(
    here: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    found = sync(here, there, second=there, third=here)
    assert [host.same_as for host in found.values()] == ["", "titan", "local"]
