"""A tree is sent to directories: only what differs, all or nothing, and never outside of them."""

import json
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from launcher.errors import HostError, SyncFailed
from launcher.onhost import answer
from launcher.sync.host import SyncClient
from launcher.sync.sync import SyncJob, send_tree
from launcher.sync.tree import read_tree
from tests.launcher.sync_tree import ENTRY, listing, opener, receiver, sync, write

HASH_OF_X = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write(tmp_path / "here", {"train.py": "1\n", "pkg/a.py": "a\n", "pkg/deep/b.py": "b\n"})
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there"


def test_a_tree_arrives_as_it_is(here: Path, there: Path) -> None:
    (here / "train.py").chmod(0o755)
    (here / "link").symlink_to("pkg/a.py")
    write(here, {os.fsdecode(b"caf\xe9"): "c"})
    assert sync(here, there)["titan"].done.written == 5
    assert listing(there) == listing(here)
    assert stat.S_IMODE((there / "train.py").stat().st_mode) == 0o755
    assert (there / "link").readlink() == Path("pkg/a.py")


def test_a_second_sync_sends_nothing_and_a_changed_file_is_sent_alone(here: Path, there: Path) -> None:
    sync(here, there)
    inode = (there / "train.py").stat().st_ino
    again = sync(here, there)["titan"]
    assert (again.done.written, again.sent) == (0, 0)
    write(here, {"pkg/a.py": "A\n"})
    changed = sync(here, there)["titan"]
    assert (changed.done.written, changed.sent, changed.done.kept) == (1, 2, ())
    assert (there / "pkg/a.py").read_text() == "A\n"
    assert (there / "train.py").stat().st_ino == inode


def test_an_edit_of_equal_size_and_time_is_seen(here: Path, there: Path) -> None:
    sync(here, there)
    sync(here, there)
    times = (there / "train.py").stat()
    (there / "train.py").write_text("9\n")
    os.utime(there / "train.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sync(here, there)["titan"].done.written == 1
    assert (there / "train.py").read_text() == "1\n"


@pytest.mark.slow
def test_hashes_are_remembered_once_files_have_settled(here: Path, there: Path) -> None:
    kept = there / ".gpulaunch-sync" / "record.json"
    sync(here, there)
    row = json.loads(kept.read_text())["files"]["train.py"]
    assert row[1:] == [0, 0, 0, 0, True], "written a moment ago: not to be trusted by its times"
    time.sleep(2.1)
    sync(here, there)
    record = json.loads(kept.read_text())
    found = (there / "train.py").stat()
    times = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
    assert record["files"]["train.py"] == [row[0], *times, True]
    record["files"]["train.py"][0] = "f" + HASH_OF_X
    kept.write_text(json.dumps(record))
    assert sync(here, there)["titan"].done.written == 1, "the record was believed, the file was not read"


def test_a_mode_alone_is_set_without_sending(here: Path, there: Path) -> None:
    sync(here, there)
    (here / "train.py").chmod(0o755)
    assert sync(here, there)["titan"].done.written == 0
    assert stat.S_IMODE((there / "train.py").stat().st_mode) == 0o755


def test_nothing_is_deleted_unless_asked_and_then_only_what_a_sync_put_there(here: Path, there: Path) -> None:
    sync(here, there)
    write(there, {"pkg/own.txt": "mine", "pkg/deep/b.py": "edited there\n"})
    (here / "pkg/a.py").unlink()
    (here / "pkg/deep/b.py").unlink()
    kept = sync(here, there)["titan"].done
    assert (kept.deleted, kept.stale, kept.edited) == ((), ("pkg/a.py",), ("pkg/deep/b.py",))
    done = sync(here, there, delete=True)["titan"].done
    assert (done.deleted, done.edited) == (("pkg/a.py",), ("pkg/deep/b.py",))
    assert listing(there) == {"train.py": "1\n", "pkg/own.txt": "mine", "pkg/deep/b.py": "edited there\n"}


def test_directories_that_a_sync_made_go_when_they_are_empty(here: Path, there: Path) -> None:
    sync(here, there)
    (here / "pkg/deep/b.py").unlink()
    sync(here, there, delete=True)
    assert not (there / "pkg/deep").exists()
    assert (there / "pkg/a.py").exists()


def test_a_file_equal_by_chance_is_not_ours_to_delete(here: Path, there: Path) -> None:
    write(there, {"train.py": "1\n"})
    sync(here, there)
    (here / "train.py").unlink()
    assert sync(here, there, delete=True)["titan"].done.deleted == ()
    assert (there / "train.py").exists()


def test_what_was_edited_there_is_replaced_and_kept(here: Path, there: Path) -> None:
    sync(here, there)
    write(there, {"train.py": "an hour's work\n"})
    done = sync(here, there)["titan"].done
    assert done.kept == ("train.py",)
    assert Path(done.kept_in, "train.py").read_text() == "an hour's work\n"
    assert (there / "train.py").read_text() == "1\n"


def test_two_hosts_with_one_directory_get_it_once(here: Path, there: Path, tmp_path: Path) -> None:
    there.mkdir()
    (tmp_path / "mounted").symlink_to(there)
    found = sync(here, there, l40s=tmp_path / "mounted", other=tmp_path / "own")
    assert [found[name].same_as for name in ("titan", "l40s", "other")] == ["", "titan", ""]
    assert [found[name].done.written for name in ("titan", "l40s", "other")] == [3, 0, 3]


def test_the_tree_itself_is_not_written(here: Path, tmp_path: Path) -> None:
    found = sync(here, here, other=tmp_path / "own")
    assert found["titan"].same_as == "local"
    assert found["other"].done.written == 3


BAD_PATHS = [
    "../x",
    "/etc/x",
    "a/../../x",
    "a//b",
    "./a",
    "",
    "a/.",
    ".git/hooks/x",
    ".gpulaunch-sync/x",
    "a\0b",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_leaves_the_directory_is_refused(there: Path, path: str) -> None:
    with receiver(there) as host, pytest.raises(SyncFailed, match="is not a path inside the directory"):
        host.compare([[path, "f", 0o644, 1, HASH_OF_X]], delete=False)
    assert listing(there) == {}
    assert not (there.parent / "x").exists()


def test_no_link_on_the_host_leads_out_of_the_directory(here: Path, there: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    there.mkdir()
    (there / "pkg").symlink_to(tmp_path / "outside")
    with pytest.raises(SyncFailed, match=r"pkg in .* is a symbolic link, so pkg/a\.py cannot be written"):
        sync(here, there)
    assert list((tmp_path / "outside").iterdir()) == []
    assert listing(there) == {"pkg": f"-> {tmp_path}/outside"}


def test_a_link_that_was_sent_is_no_way_out_either(there: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    rows: list[list[object]] = [
        ["way", "l", 0, 0, str(tmp_path / "outside")],
        ["way/x", "f", 0o644, 1, HASH_OF_X],
    ]
    with receiver(there) as host, pytest.raises(SyncFailed, match="'way/x' lies below a file or a link"):
        host.compare(rows, delete=False)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_record_that_somebody_has_edited_leads_nowhere_else(
    here: Path, there: Path, tmp_path: Path
) -> None:
    sync(here, there)
    (tmp_path / "precious").write_text("x")
    kept = there / ".gpulaunch-sync" / "record.json"
    record = json.loads(kept.read_text())
    for path in ("../precious", str(tmp_path / "precious")):
        record["files"][path] = ["f" + HASH_OF_X, 0, 0, 0, 0, True]
    record["dirs"] += [".."]
    kept.write_text(json.dumps(record))
    assert sync(here, there, delete=True)["titan"].done.deleted == ()
    assert (tmp_path / "precious").exists()


def test_a_damaged_record_is_as_none(here: Path, there: Path) -> None:
    sync(here, there)
    for text in ("", "[]", '{"files": [1], "dirs": 3}', "\0"):
        (there / ".gpulaunch-sync" / "record.json").write_text(text)
        assert sync(here, there)["titan"].done.written == 0


def test_a_link_there_with_the_name_of_a_file_is_replaced_not_followed(
    here: Path, there: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"theirs.txt": "precious"})
    there.mkdir()
    (there / "train.py").symlink_to(tmp_path / "theirs.txt")
    sync(here, there)
    assert (tmp_path / "theirs.txt").read_text() == "precious"
    assert (there / "train.py").read_text() == "1\n"


def test_a_file_that_became_a_directory_is_replaced_if_a_sync_put_it(here: Path, there: Path) -> None:
    sync(here, there)
    (here / "train.py").unlink()
    write(here, {"train.py/main.py": "m"})
    sync(here, there)
    assert (there / "train.py/main.py").read_text() == "m"


def test_a_directory_in_the_way_is_told(here: Path, there: Path) -> None:
    write(there, {"train.py/notes.txt": "mine"})
    with pytest.raises(SyncFailed, match=r"train\.py in .* is a directory") as failure:
        sync(here, there)
    assert "sync.exclude" in failure.value.fix
    assert listing(there) == {"train.py/notes.txt": "mine"}


def test_a_file_that_changes_while_it_is_sent_leaves_everything_as_it_was(here: Path, there: Path) -> None:
    tree = read_tree(here, exclude=(), max_mib=1)
    write(here, {"train.py": "2\n"})
    with receiver(there) as host:
        needed = host.compare(tree.entries, delete=False)

        def send() -> None:
            for index in needed:
                host.upload(index, tree.entries[index], here, lambda _: None)
            host.finish_staging()

        with pytest.raises(SyncFailed, match=r"train\.py changed while it was sent"):
            send()
    assert listing(there) == {}
    assert [path.name for path in (there / ".gpulaunch-sync").glob("incoming-*")] == []


def test_a_file_that_grows_while_it_is_sent_arrives_as_it_was(here: Path, there: Path) -> None:
    write(here, {"run.log": "1\n"})
    tree = read_tree(here, exclude=(), max_mib=1)
    write(here, {"run.log": "1\n2\n"})
    with receiver(there) as host:
        for index in host.compare(tree.entries, delete=False):
            host.upload(index, tree.entries[index], here, lambda _: None)
        host.finish_staging()
        host.commit()
    assert (there / "run.log").read_text() == "1\n"


def test_a_directory_says_whose_other_tree_it_had(here: Path, there: Path) -> None:
    tree = read_tree(here, exclude=(), max_mib=1)

    def send(source: str) -> str:
        with receiver(there) as host:
            for index in host.compare(tree.entries, delete=False):
                host.upload(index, tree.entries[index], here, lambda _: None)
            host.finish_staging()
            return host.commit(source).former

    first, second, third = "ana@x:/a/exp", "bo@y:/ü/exp", "cy@z:/exp\u2028two"
    assert [send(each) for each in (first, first, second)] == ["", "", first]
    # Two laptops in turn: each is named once. A third tree is new to the directory.
    assert [send(each) for each in (first, second, first, third, third, second)] == [
        "",
        "",
        "",
        first,
        "",
        "",
    ]


def test_a_file_that_shrinks_while_it_is_sent_is_told(here: Path, there: Path) -> None:
    tree = read_tree(here, exclude=(), max_mib=1)
    write(here, {"train.py": ""})
    with receiver(there) as host:
        needed = host.compare(tree.entries, delete=False)
        with pytest.raises(SyncFailed, match="changed while it was sent"):
            host.upload(needed[-1], tree.entries[needed[-1]], here, lambda _: None)


def test_a_client_that_vanishes_leaves_nothing_in_place(here: Path, there: Path) -> None:
    tree = read_tree(here, exclude=(), max_mib=1)
    with receiver(there) as host:
        for index in host.compare(tree.entries, delete=False):
            host.upload(index, tree.entries[index], here, lambda _: None)
        host.finish_staging()
    assert listing(there) == {}
    assert sorted(path.name for path in (there / ".gpulaunch-sync").iterdir()) == [".gitignore", "lock"]


def test_a_second_file_for_one_request_is_refused(here: Path, there: Path) -> None:
    tree = read_tree(here, exclude=(), max_mib=1)
    with receiver(there) as host:
        host.compare(tree.entries, delete=False)
        host.upload(0, tree.entries[0], here, lambda _: None)
        host.upload(0, tree.entries[0], here, lambda _: None)
        with pytest.raises(SyncFailed, match="not asked for"):
            host.finish_staging()


def test_a_host_that_fails_keeps_the_others_as_they_were(here: Path, there: Path, tmp_path: Path) -> None:
    write(tmp_path / "bad", {"train.py/x": ""})
    with pytest.raises(SyncFailed):
        sync(here, there, bad=tmp_path / "bad")
    assert listing(there) == {}


def test_the_home_directory_there_is_refused(here: Path) -> None:
    with pytest.raises(SyncFailed, match="not a directory for a working tree alone"):
        sync(here, Path.home())


def test_a_file_where_the_directory_should_be_is_told(here: Path, there: Path) -> None:
    there.write_text("")
    with pytest.raises(SyncFailed, match=f"titan: {there}"):
        sync(here, there)


def test_no_python_there_is_told_with_what_to_set(here: Path, there: Path) -> None:
    tree = read_tree(here, exclude=(), max_mib=1)
    entry = replace(ENTRY, python="/nonexistent/python")
    with pytest.raises(HostError, match="cannot be started") as failure:
        send_tree(SyncJob(lambda: tree, {"titan": str(there)}), [entry], opener, lambda _: None)
    assert "hosts.yaml" in failure.value.fix


def test_a_host_that_works_long_says_so_and_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(answer, "_last_beat", [float("-inf")]):
        answer.report_busy()
        answer.report_busy()
    assert capsys.readouterr().out.count('{"busy": true}') == 1
    client = SyncClient(mock.Mock(command_line=lambda _: "ssh a"), "python3")
    client._stream = mock.Mock()
    client._answers = mock.Mock(next=mock.Mock(side_effect=[{"busy": True}, {"busy": True}, {"staged": 3}]))
    assert client.finish_staging() == 3


def test_two_syncs_of_one_directory_take_turns(here: Path, there: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(sync, here, there) for _ in range(2)]
    assert sorted(each.result()["titan"].done.written for each in both) == [0, 3]
    assert listing(there) == listing(here)
