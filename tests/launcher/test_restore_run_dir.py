"""When a deleted run directory is put back: once its deletion is over, with all that its ranks wrote."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.onhost.event_file import EVENTS
from launcher.onhost.supervisor.daemon import restore_run_dir
from launcher.onhost.supervisor.daemon.client_liveness import ClientLiveness
from launcher.onhost.supervisor.daemon.restore_run_dir import SETTLE_S, RunDirRestorer
from launcher.onhost.supervisor.daemon.supervised_run import SupervisedRun
from launcher.onhost.supervisor.run_dir import SPEC, STATE

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
        assert not self._restorer.check()

    def write(self, data: bytes) -> None:
        self.log.write(data)
        self.log.flush()

    def checks(self, after_s: float) -> bool:
        """Let the supervisor look after some time."""
        self.now += after_s
        return self._restorer.check()

    def unlink(self, name: str) -> None:
        (self.place / name).unlink()

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.place.iterdir()}


@pytest.fixture
def deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deletion]:
    begun = Deletion(tmp_path, monkeypatch)
    with begun.log:
        yield begun


def test_what_is_missing_comes_back_once_its_deletion_is_over(deletion: Deletion, tmp_path: Path) -> None:
    left = deletion.names
    for name in (LOG, STATE):  # what vanished is seen by the second
        deletion.unlink(name)
        deletion.write(b"more ")
        left.discard(name)
        assert not deletion.checks(0.0)
    assert not deletion.checks(SETTLE_S / 2)
    assert deletion.names == left
    shutil.rmtree(tmp_path)
    assert deletion.checks(SETTLE_S)
    assert {STATE, SPEC} <= deletion.names
    deletion.write(b"last")
    deletion.checks(0.0)
    assert (tmp_path / LOG).read_bytes() == b"one more more last"


def test_only_a_deletion_of_the_run_brings_a_log_back(deletion: Deletion) -> None:
    deletion.unlink(LOG)
    assert not deletion.checks(SETTLE_S)
    assert LOG not in deletion.names
