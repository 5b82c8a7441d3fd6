"""Files that a fetch writes: whole or not under their name, and only where they belong."""

from pathlib import Path

import pytest

from launcher.onhost.supervisor.requests import fetch
from launcher.onhost.supervisor.requests.fetch import make_key
from launcher.runs.fetch import FileReceiver, _hold


def test_a_file_that_is_not_whole_does_not_have_its_name(tmp_path: Path) -> None:
    receiver = FileReceiver(tmp_path / "h")
    receiver.write({"file": "output/m", "offset": 0, "whole": 10, "mtime_ns": 5, "grows": False}, b"12345")
    receiver.close()
    assert not (tmp_path / "h" / "output" / "m").exists()
    assert receiver.missing() == {"have": {}, "part": {make_key("output/m"): [[10, 5, 5]]}, "ends": {}}


def test_two_fetches_at_once_do_not_cut_what_the_other_has_received(tmp_path: Path) -> None:
    first, second = FileReceiver(tmp_path / "h"), FileReceiver(tmp_path / "h")
    header = {"file": "output/m", "offset": 0, "whole": 10, "mtime_ns": 5, "grows": False}
    first.write(header, b"12345")
    second.write(header, b"123")
    second.close()
    first.write({**header, "offset": 5}, b"67890")
    assert (tmp_path / "h" / "output" / "m").read_bytes() == b"1234567890"
    assert second.fetched.skipped == ["output/m: another gpulaunch fetches it just now"]


def test_a_started_copy_that_another_fetch_has_finished_is_passed_over(tmp_path: Path) -> None:
    first, second = FileReceiver(tmp_path / "h"), FileReceiver(tmp_path / "h")
    header = {"file": "m", "offset": 0, "whole": 10, "mtime_ns": 5, "grows": False}
    first.write(header, b"12345")
    (begun,) = (tmp_path / "h").iterdir()
    with begun.open("r+b") as opened:
        first.write({**header, "offset": 5}, b"67890")
        with pytest.raises(FileNotFoundError):
            _hold(opened.fileno(), begun)
        begun.touch()  # a third one has begun
        with pytest.raises(BlockingIOError):
            _hold(opened.fileno(), begun)
    begun.unlink()
    second.write({**header, "offset": 5}, b"67890")
    assert second.fetched.skipped == ["m: another gpulaunch fetches it just now"]
    assert [path.read_bytes() for path in (tmp_path / "h").iterdir()] == [b"1234567890"]


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "output/../../x", "a//b", "", "a/./b", "a\0b", "link/x", "output/deep/../x"]
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "link").symlink_to(outside)
    receiver = FileReceiver(tmp_path / "h")
    receiver.write({"file": name, "offset": 0, "whole": 1, "mtime_ns": 5, "grows": False}, b"1")
    assert len(receiver.fetched.skipped) == 1
    assert receiver.fetched.files == 0
    assert list(outside.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "outside"]


def test_a_link_in_the_place_of_a_log_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "rank-0.log").symlink_to(victim)
    receiver = FileReceiver(tmp_path / "h")
    receiver.write({"file": "rank-0.log", "offset": 0, "whole": 1, "mtime_ns": 5, "grows": True}, b"1")
    assert "is a symbolic link" in receiver.fetched.skipped[0]
    assert victim.read_text() == "precious"


def test_a_count_of_many_files_is_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk it takes longer than a silence that the other side bears."""
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"123")
    sent: list[int] = []
    monkeypatch.setattr(fetch, "encode_frame", lambda header: header["lacks"])
    monkeypatch.setattr(fetch, "write_all", lambda _, count: sent.append(count))
    assert [name for name, _ in fetch.count_files(fetch.list_files_below(str(tmp_path), ""), {})] == [
        "a",
        "b",
    ]
    assert sent == [6]
    sent.clear()
    monkeypatch.setattr(fetch, "BEAT_S", 0.0)
    fetch.count_files(fetch.list_files_below(str(tmp_path), ""), {})
    assert sent == [3, 3, 0]


def test_what_a_restart_leaves_in_its_run_is_not_fetched_and_an_output_of_that_name_is(
    tmp_path: Path,
) -> None:
    for name in ("restart/code/a.py", "deep/restart/b", "rank-0.log", "client.pack"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    own = [name for name, _ in fetch.list_files_below(str(tmp_path), "")]
    assert own == ["rank-0.log", "deep/restart/b"]
    output = [name for name, _ in fetch.list_files_below(str(tmp_path), "output/")]
    assert "output/restart/code/a.py" in output
