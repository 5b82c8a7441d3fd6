"""Files of a run directory on a disk without room for one more: a name that is taken stands for the disk."""

import os
import time
from pathlib import Path

import pytest

from launcher.onhost.supervisor.client_files import (
    StopRequest,
    count_silent_seconds,
    read_stop_request,
    record_heartbeat,
    request_stop,
)
from launcher.onhost.supervisor.end_causes import SIGNAL
from launcher.onhost.supervisor.files import explain_full_disk, write_file
from launcher.onhost.supervisor.next_start import may_follow
from launcher.onhost.supervisor.node import read_node_location
from launcher.onhost.supervisor.protocol import RequestRefused
from launcher.onhost.supervisor.requests import stacks
from launcher.onhost.supervisor.run_dir import STACKS


def take_room(run_dir: Path, name: str) -> None:
    """Let no new file be written in place of this one."""
    (run_dir / f"{name}.{os.getpid()}.new").mkdir()


def test_a_client_is_still_heard_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "client").write_text(f"{time.monotonic() - 1000.0:012.3f}")
    take_room(tmp_path, "client")
    record_heartbeat(str(tmp_path))
    assert (age_s := count_silent_seconds(str(tmp_path))) is not None
    assert age_s < 900.0


def test_a_stop_on_a_full_disk_is_a_persons_all_the_same(tmp_path: Path) -> None:
    take_room(tmp_path, "stop.json")
    state = {**read_node_location(), "supervisor": [2**22 + 1, 1]}  # a pid that no process can have
    assert not request_stop(str(tmp_path), StopRequest("enough", 5.0), state)
    request = read_stop_request(str(tmp_path), 7.0)
    assert (request.cause, request.grace_s) == (SIGNAL, 7.0)
    (tmp_path / "detached").touch()
    end = {"why": request.why, "cause": request.cause, "requested": request.requested, "ranks": {"0": -15}}
    assert not may_follow(str(tmp_path), end)


def test_a_file_that_cannot_be_replaced_leaves_no_half_of_it(tmp_path: Path) -> None:
    (tmp_path / "state.json" / "in").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_file(str(tmp_path / "state.json"), "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_full_disk_is_known_by_a_write_and_leaves_nothing(tmp_path: Path) -> None:
    assert explain_full_disk(str(tmp_path)) == ""
    assert explain_full_disk(str(tmp_path / "gone")) == ""  # another problem
    (tmp_path / f"probe.{os.getpid()}.new").symlink_to("/dev/full")
    assert explain_full_disk(str(tmp_path)) == f"{tmp_path}: [Errno 28] No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_stacks_that_a_full_disk_does_not_take_are_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / STACKS).write_text("raise SystemExit")
    monkeypatch.setattr(stacks, "is_alive", lambda _state: True)
    assert stacks.dump_stacks(str(tmp_path)) == {}
    (tmp_path / f"probe.{os.getpid()}.new").symlink_to("/dev/full")
    with pytest.raises(RequestRefused, match=r"stacks cannot be written: .*No space left"):
        stacks.dump_stacks(str(tmp_path))
