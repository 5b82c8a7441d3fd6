"""A start that was to continue from a checkpoint, and trains from the beginning again."""

from pathlib import Path

import pytest

from launcher.follow.events import LogOutput, Tick
from launcher.launch.resume_watch import ResumeWatch, step_to_pass
from tests.launcher.run_events import CPU
from tests.launcher.test_run_reporter import Followed


def lines(*steps: int, epoch: str = "") -> bytes:
    return b"".join(f"{epoch}step {step}/100 loss {1 / step:.3f}\n".encode() for step in steps)


@pytest.mark.parametrize(
    ("log", "checkpoint", "step"),
    [
        (lines(*range(1, 46)), 40, 40),
        (lines(*range(1, 40)), 40, 0),  # not yet written by what is counted
        (lines(*range(41, 60)), 40, 0),
        (lines(*range(1, 50), *range(1, 46)), 40, -1),  # within epochs
        (b"epoch 1 loss 0.3\nepoch 2 loss 0.2\n", 2, 0),
        (b"no word of it\n", 40, 0),
    ],
)
def test_a_checkpoint_is_of_a_printed_step_where_both_count_alike(
    tmp_path: Path, log: bytes, checkpoint: int, step: int
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "rank-0.log").write_bytes(log)
    assert step_to_pass(checkpoint, tmp_path) == step


def watch(tmp_path: Path, *pieces: bytes, step: int = 40) -> list[str]:
    run, offset = Followed(tmp_path, CPU), 0
    run.book.add_event("started")
    run.reporter.resume = ResumeWatch(step)
    for number, piece in enumerate(pieces):
        run.take(LogOutput("a", "rank-0.log", offset, piece))
        offset, run.now = offset + len(piece), 5.0 * number
        run.take(Tick(run.now))
    run.book.close()
    return [note for note in run.notes() if "again" in note]


def test_a_start_that_trains_from_the_beginning_is_reported_once(tmp_path: Path) -> None:
    (note,) = watch(tmp_path, lines(1, 2), lines(3), lines(4), lines(5, 6))
    assert note.startswith(
        "rank 0 is at step 3 again, though it was to continue from the checkpoint of step 40"
    )
    assert "; gpulaunch stop r1-" in note


@pytest.mark.parametrize(
    "pieces",
    [
        (lines(41), lines(42), lines(43)),
        (b"  0%|  | 0/100 [00:00<?, ?it/s]\r", lines(41), lines(42)),
        (b" 1/100 [00:00<00:09]\r", b" 30/100 [00:00<00:09]\r", lines(41), lines(42)),  # batches are skipped
        (lines(1),),  # one step proves nothing
        (b"loaded\n", b"loss 0.3\n"),
    ],
)
def test_a_start_that_continues_is_not(tmp_path: Path, pieces: tuple[bytes, ...]) -> None:
    assert watch(tmp_path, *pieces) == []


def test_without_a_step_to_pass_nothing_is_looked_at(tmp_path: Path) -> None:
    assert watch(tmp_path, lines(1, 2), lines(3), step=0) == []
