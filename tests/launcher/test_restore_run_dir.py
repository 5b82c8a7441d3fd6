"""When a deleted run directory is put back: after its deletion has ended, however slow that is."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.onhost.supervisor.daemon import restore_run_dir
from launcher.onhost.supervisor.daemon.client_liveness import ClientLiveness
from launcher.onhost.supervisor.daemon.restore_run_dir import SETTLE_MOST_S, SETTLE_S, RunDirRestorer
from launcher.onhost.supervisor.daemon.run_state import SupervisedRun
from launcher.onhost.supervisor.run_dir import EVENTS, SPEC, STATE

STEP_S = SETTLE_S * 0.9
LOG = "rank-0.log"


class Deletion:
    """A run directory with an open log, a restorer, and a clock that moves when told."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.now = 100.0
        monkeypatch.setattr(restore_run_dir, "time", SimpleNamespace(monotonic=lambda: self.now))
        (place / SPEC).write_text("{}")
        (place / EVENTS).touch()
        run = SupervisedRun({"run_id": "x"}, str(place), os.getpid())
        run.emit("started")
        run.save("running")
        self.log = (place / LOG).open("wb")
        self.write(b"one ")
        self._restorer = RunDirRestorer(run, ClientLiveness(run))
        assert not self._restorer.check([os.getpid()])

    def write(self, data: bytes) -> None:
        self.log.write(data)
        self.log.flush()

    def checks(self, after_s: float) -> bool:
        """Let the supervisor look after some time."""
        self.now += after_s
        return self._restorer.check([os.getpid()])

    def unlink(self, name: str) -> None:
        path = self.place / name
        before = self.place.stat().st_mtime_ns
        path.unlink()
        while self.place.stat().st_mtime_ns == before:  # two changes within one tick of the kernel's clock
            os.utime(self.place)

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.place.iterdir()}


@pytest.fixture
def deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deletion]:
    begun = Deletion(tmp_path, monkeypatch)
    with begun.log:
        yield begun


def test_nothing_comes_back_while_names_vanish(deletion: Deletion, tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"rank-{number}.txt").touch()
    left = deletion.names
    for name in sorted(left, key=(STATE, LOG).__contains__, reverse=True):  # those two show it and tempt
        deletion.unlink(name)
        deletion.write(b"more ")
        left.discard(name)
        assert not deletion.checks(STEP_S)
        assert deletion.names == left
    tmp_path.rmdir()  # what `rm -r` does last
    assert not deletion.checks(STEP_S)
    assert deletion.checks(SETTLE_S)
    assert {STATE, SPEC} <= deletion.names
    deletion.checks(STEP_S)
    assert (tmp_path / LOG).read_bytes() == b"one " + b"more " * (8 + 4)


def test_a_directory_that_never_settles_comes_back(deletion: Deletion, tmp_path: Path) -> None:
    deletion.unlink(STATE)
    began = deletion.now
    for number in range(100):
        (tmp_path / f"filler-{number}").touch()
        os.utime(tmp_path, ns=(number, number))
        if deletion.checks(STEP_S):
            break
    assert SETTLE_MOST_S <= deletion.now - began < SETTLE_MOST_S + 3 * STEP_S
    assert STATE in deletion.names
