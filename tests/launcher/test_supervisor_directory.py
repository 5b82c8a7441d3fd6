"""A run whose directory is deleted while it runs."""

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.launcher.onhost_driver import WAIT, Driver, pids_of, up

pytestmark = pytest.mark.slow


def talks(run: Driver) -> None:
    """Follow until the rank has said something, and the supervisor holds its log."""
    run.until(lambda: run.log() == b"before\n")
    place = Path(f"/proc/{pids_of(run.answer)[0]}/fd")
    run.until(lambda: any(path.resolve() == run.run_dir / "rank-0.log" for path in place.iterdir()))


def delete(run: Driver) -> None:
    """Delete the run directory, again where files that the run put back meanwhile made that fail."""
    while True:
        with suppress(OSError):
            shutil.rmtree(run.run_dir)
            return


# A rank that writes much, and tells an event, once it is given the word.
TALKS_LATER = """
import os, time
print("before", flush=True)
while not os.path.exists({go!r}): time.sleep(0.05)
os.write(1, b"x" * 1_000_000 + b"\\n")
raise ValueError("after")
"""


def is_all_there_under_its_name(run: Driver) -> None:
    """Assert that what the rank wrote, and every event, is in the run directory as it came here."""
    assert run.event("exception")["message"] == "after"  # told by the rank, by name, in the new directory
    assert run.ended()["exit"]["ranks"] == {"0": 1}
    log = (run.run_dir / "rank-0.log").read_bytes()
    assert log.startswith(b"before\n" + b"x" * 1_000_000 + b"\nTraceback")
    assert log == run.log()
    names = [json.loads(line)["event"] for line in (run.run_dir / "events.jsonl").read_text().splitlines()]
    assert "started" in names[:2]  # the rank may be faster
    assert names == [event["event"] for event in run.events]


def test_a_run_whose_directory_was_deleted_can_still_be_followed_and_stopped(run: Driver) -> None:
    run.start(WAIT)
    up(run)
    delete(run)
    run.until(
        (run.run_dir / "state.json").exists
    )  # before that, how a rank ends may be lost with the directory
    os.kill(pids_of(run.answer)[0], signal.SIGTERM)
    assert run.event("ended")["ranks"] == {"0": -15}
    run.until(lambda: run.end is not None)
    assert run.gone() == {}


def test_a_client_stops_a_run_whose_directory_is_not_restored_yet(run: Driver) -> None:
    run.start(WAIT)
    up(run)
    run.until(lambda: len(run.alive) > 0)  # the follower has read the state
    delete(run)
    run.say("stop 0 enough")
    assert run.ended()["exit"]["ranks"] == {"0": -15}
    assert run.gone() == {}


def test_what_ranks_write_after_their_directory_was_deleted_is_there_under_its_name(
    run: Driver, tmp_path: Path
) -> None:
    run.start(TALKS_LATER.format(go=str(tmp_path / "go")))
    talks(run)
    delete(run)
    run.until((run.run_dir / "state.json").exists)
    (tmp_path / "go").touch()
    is_all_there_under_its_name(run)


def test_what_ranks_write_after_nfs_has_renamed_their_deleted_logs_is_there_too(
    run: Driver, tmp_path: Path
) -> None:
    run.start(TALKS_LATER.format(go=str(tmp_path / "go")))
    talks(run)
    for number, path in enumerate(sorted(run.run_dir.iterdir())):
        if path.suffix == ".log":
            path.rename(path.with_name(f".nfs{number:024x}"))  # what an NFS client makes of unlink(2)
        elif path.is_file() or path.is_fifo():
            path.unlink()
    run.until((run.run_dir / "state.json").exists)
    (tmp_path / "go").touch()
    is_all_there_under_its_name(run)


def test_a_deletion_that_takes_what_was_put_back_already_loses_nothing(run: Driver, tmp_path: Path) -> None:
    run.start(TALKS_LATER.format(go=str(tmp_path / "go")))
    talks(run)
    last = ["state.json", "rank-0.log", "events.jsonl"]
    for path in run.run_dir.iterdir():
        if path.name not in last:
            path.unlink() if not path.is_dir() else shutil.rmtree(path)
    for name in last:
        (run.run_dir / name).unlink()
        run.until((run.run_dir / "state.json").exists)
        run.until((run.run_dir / name).exists)
    (tmp_path / "go").touch()
    is_all_there_under_its_name(run)


def test_a_run_that_ends_just_after_its_directory_was_deleted_leaves_its_end_there(
    run: Driver, tmp_path: Path
) -> None:
    run.start(TALKS_LATER.format(go=str(tmp_path / "go")))
    talks(run)
    (tmp_path / "go").touch()
    delete(run)
    ranks = run.ended()["exit"]["ranks"]
    assert ranks["0"] in (1, None)  # its launcher may have reaped it before the supervisor looked
    state = json.loads((run.run_dir / "state.json").read_text())
    assert (state["phase"], state["exit"]["ranks"]) == ("ended", ranks)
