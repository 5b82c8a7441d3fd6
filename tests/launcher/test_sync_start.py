"""Hosts start their receivers while the local tree is read; nothing remains of a sync that cannot go on."""

import threading
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import ConfigError, HostError
from launcher.sync.sync import SyncJob, send_tree
from launcher.sync.tree import SourceTree, read_tree
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection
from tests.launcher.sync_tree import ENTRY, listing, receiver, sync, write


class CountedConnection(LocalConnection):
    """Says when it was opened, started a program and was closed."""

    def __init__(self, name: str, events: "Events") -> None:
        super().__init__(Endpoint(name, "local", ""))
        self._events = events

    def close(self) -> None:
        self._events.closed.append(self.name)
        super().close()


class Events:
    def __init__(self) -> None:
        self.opened = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.closed: list[str] = []

    def open(self, entry: HostEntry) -> Connection:
        self.opened.set()
        self.go.wait(30)
        return CountedConnection(entry.name, self)

    def refuse(self, entry: HostEntry) -> Connection:
        self.opened.set()
        raise HostError(entry.name, "no way to it")


def still_running(before: list[threading.Thread]) -> list[threading.Thread]:
    """Return the threads since then that do not end."""
    since = [thread for thread in threading.enumerate() if thread not in before]
    for thread in since:
        thread.join(10)
    return [thread for thread in since if thread.is_alive()]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write(tmp_path / "here", {"train.py": "1\n"})
    return tmp_path / "here"


def test_hosts_start_while_the_tree_is_read(here: Path, tmp_path: Path) -> None:
    events, before, opened_first = Events(), threading.enumerate(), []

    def read() -> SourceTree:
        opened_first.append(events.opened.wait(30))
        return read_tree(here, exclude=(), max_mib=1)

    job = SyncJob(read, {"titan": str(tmp_path / "there")})
    assert send_tree(job, [ENTRY], events.open, lambda _: None)["titan"].done.written == 1
    assert opened_first == [True]
    assert set(events.closed) == {"titan"}
    assert still_running(before) == []


def test_a_tree_that_cannot_be_read_leaves_no_directory_and_no_connection(tmp_path: Path) -> None:
    events, before = Events(), threading.enumerate()

    def read() -> SourceTree:
        assert events.opened.wait(30)
        return read_tree(tmp_path / "absent", exclude=(), max_mib=1)

    with pytest.raises(ConfigError, match="no such directory"):
        send_tree(SyncJob(read, {"titan": str(tmp_path / "there")}), [ENTRY], events.open, lambda _: None)
    assert not (tmp_path / "there").exists()
    assert set(events.closed) == {"titan"}
    assert still_running(before) == []


def test_a_host_that_is_connected_to_after_the_end_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.sync.sync._CLOSE_S", 0.0)
    events, before = Events(), threading.enumerate()
    events.go.clear()
    with pytest.raises(ConfigError, match="no such directory"):
        send_tree(
            SyncJob(lambda: read_tree(tmp_path / "absent", exclude=(), max_mib=1), {"titan": "/absent/x"}),
            [ENTRY],
            events.open,
            lambda _: None,
        )
    events.go.set()
    assert still_running(before) == []
    assert not events.opened.is_set() or "titan" in events.closed
    assert not Path("/absent").exists()


def test_a_host_without_a_way_is_the_error_once_the_tree_is_read(here: Path, tmp_path: Path) -> None:
    events, read = Events(), []

    def read_slowly() -> SourceTree:
        assert events.opened.wait(30)
        read.append(read_tree(here, exclude=(), max_mib=1))
        return read[0]

    with pytest.raises(HostError, match="no way to it"):
        send_tree(
            SyncJob(read_slowly, {"titan": str(tmp_path / "there")}), [ENTRY], events.refuse, lambda _: None
        )
    assert len(read) == 1


def test_nothing_of_a_sync_remains_once_it_is_committed(here: Path, tmp_path: Path) -> None:
    tree = read_tree(here, exclude=(), max_mib=1)
    with receiver(tmp_path / "there") as host:
        for index in host.compare(tree.entries, delete=False):
            host.upload(index, tree.entries[index], here, lambda _: None)
        host.commit()
        left = sorted(path.name for path in (tmp_path / "there/.gpulaunch-sync").iterdir())
        assert left == [".gitignore", "lock", "record.json", "tree.sha256"]
        assert sync(here, tmp_path / "there")["titan"].done.written == 0  # the lock is free, too


def test_a_record_that_has_not_changed_is_not_written_again(here: Path, tmp_path: Path) -> None:
    record = tmp_path / "there/.gpulaunch-sync/record.json"
    sync(here, tmp_path / "there")
    sync(here, tmp_path / "there")
    inode = record.stat().st_ino
    sync(here, tmp_path / "there")
    assert record.stat().st_ino == inode
    assert listing(tmp_path / "there") == listing(here)
