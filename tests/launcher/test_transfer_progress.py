"""What a long transfer says of itself."""

import time

import pytest

from launcher.terminal import transfer_progress
from launcher.terminal.transfer_progress import TransferProgress


def await_line(said: list[str], line: str) -> None:
    end = time.monotonic() + 30.0
    while line not in said:
        assert time.monotonic() < end, said
        time.sleep(0.01)


def test_a_transfer_says_how_much_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_progress, "PROGRESS_S", 0.01)
    monkeypatch.setattr(transfer_progress, "_LONGEST_PAUSE_S", 0.02)
    said: list[str] = []
    progress = TransferProgress(said.append, "fetch", "received from 1 host")
    with progress.report_progress():
        await_line(said, "fetch: comparing files")
        progress.expect(8 << 20)
        await_line(said, "fetch: 0 B of 8.0 MiB received from 1 host")
        progress.add(3 << 20)
        await_line(said, "fetch: 3.0 MiB of 8.0 MiB received from 1 host")
        progress.add(9 << 20)  # a log has grown meanwhile
        await_line(said, "fetch: 12.0 MiB of 12.0 MiB received from 1 host")
    count = len(said)
    time.sleep(0.1)
    assert len(said) == count


def test_a_short_transfer_says_nothing() -> None:
    said: list[str] = []
    with TransferProgress(said.append, "sync", "sent to 2 hosts").report_progress() as progress:
        progress.expect(1)
    assert said == []
