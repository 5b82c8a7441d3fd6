"""Nothing is written elsewhere than in the directory that was meant, whatever names and links say."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import PathRefused
from launcher.local.safe_paths import join_below, make_directory, open_below, remove_oldest, write_below
from launcher.planning.run_record import delete_run_record, save_run_record
from launcher.rundir.log_store import LogStore, run_directory
from tests.launcher.run_plans import RUN_ID

NAMES = ("", ".", "..", "../x", "/x", "a/../../x", "a//b", "a/", "a/./b", "a\0b", "\ud800", "x" * 256)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    for write in (join_below, lambda top, word: write_below(top, word, "x")):
        with pytest.raises(PathRefused):
            write(tmp_path / "top", name)
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=40))
def test_every_name_stays_below_or_is_refused(name: str) -> None:
    try:
        path = join_below(Path("/top"), name)
    except PathRefused:
        return
    assert os.path.realpath(path).startswith("/top/")


@pytest.mark.parametrize("name", ["link", "link/x", "a/inner", "a/inner/x", "loop/x"])
def test_a_link_that_lies_there_is_never_written_through(tmp_path: Path, name: str) -> None:
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir()
    (top / "a").mkdir(parents=True)
    (top / "link").symlink_to(outside)
    (top / "a" / "inner").symlink_to("../../outside")
    (top / "loop").symlink_to("loop")
    for write in (
        lambda: write_below(top, name, "x"),
        lambda: open_below(top, name, os.O_WRONLY | os.O_CREAT),
        lambda: make_directory(top, name),
    ):
        with pytest.raises(PathRefused, match="is a symbolic link"):
            write()
    assert list(outside.iterdir()) == []


def test_the_directory_itself_is_the_users_word_and_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "runs").symlink_to("scratch")
    write_below(tmp_path / "runs", "r/plan.json", "x")
    assert (tmp_path / "scratch" / "r" / "plan.json").read_text() == "x"


def test_what_is_kept_is_its_users_only_and_whole(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        path = write_below(tmp_path / "runs", "r/plan.json", "first")
        write_below(tmp_path / "runs", "r/plan.json", "second")
        os.close(open_below(tmp_path / "runs", "r/h/rank-0.log", os.O_WRONLY | os.O_CREAT))
    finally:
        os.umask(before)
    modes = {
        found.relative_to(tmp_path).as_posix(): stat.S_IMODE(found.stat().st_mode)
        for found in tmp_path.rglob("*")
    }
    assert path.read_text() == "second"
    assert modes == {
        "runs": 0o700,
        "runs/r": 0o700,
        "runs/r/plan.json": 0o600,
        "runs/r/h": 0o700,
        "runs/r/h/rank-0.log": 0o600,
    }


@pytest.mark.parametrize(
    "run_id", ["/tmp/x", "..", "../x", "r1", "site-packages", f"a/{RUN_ID}", RUN_ID + "/..", RUN_ID + "\n"]
)
def test_a_run_is_kept_under_a_name_of_our_form_only(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(PathRefused):
        run_directory(tmp_path, run_id)


def test_a_repositorys_link_in_the_place_of_a_run_or_a_host_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / RUN_ID).symlink_to("home")
    with pytest.raises(PathRefused, match="is a symbolic link"):
        run_directory(tmp_path, RUN_ID)
    (tmp_path / RUN_ID).unlink()
    (tmp_path / RUN_ID).mkdir()
    (tmp_path / RUN_ID / "gpu-01").symlink_to("../home")
    (tmp_path / RUN_ID / "events.jsonl").symlink_to("../home/events")
    book = LogStore(run_directory(tmp_path, RUN_ID))
    book.add_event("started")
    book.write("gpu-01", "rank-0.log", 0, b"x")
    assert "is a symbolic link" in book.failed
    assert list((tmp_path / "home").iterdir()) == []


def test_a_log_may_have_any_name_and_of_any_length(tmp_path: Path) -> None:
    book = LogStore(tmp_path / "top")
    for host, log in (("con/../x", "../../evil.pth"), ("h" * 300, "l" * 300 + ".log"), ("é" * 200, ".log")):
        book.write(host, log, 0, b"x")
    book.close()
    assert len([path for path in (tmp_path / "top").glob("*/*") if path.read_bytes() == b"x"]) == 3


def test_a_record_is_remembered_and_forgotten_in_one_directory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "precious.json").write_text("x")
    save_run_record({"run_id": "../../../evil"})
    with pytest.raises(PathRefused):
        delete_run_record("../../../precious")
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["precious.json"]


def test_what_another_process_has_removed_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{number}.json" for number in range(4)]
    for at, path in enumerate(files):
        path.touch()
        os.utime(path, (at, at + 1))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "glob", lambda *_: iter([tmp_path / "gone.json", *files]))
        remove_oldest(tmp_path, 2)
    remove_oldest(tmp_path, 2)
    assert [path.exists() for path in files] == [False, False, True, True]
