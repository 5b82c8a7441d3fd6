"""Logs read while a run goes on."""

from launcher.follow.live_warnings import LiveLogScanner

BAD = b"{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': %d}\n"
GOOD = b"{'loss': 1.%d, 'grad_norm': 0.7, 'learning_rate': 5e-05, 'epoch': 1}\n"


def test_a_loss_stuck_at_zero_with_nan_norms_is_said_once_and_names_the_rank() -> None:
    reading = LiveLogScanner()
    said = [
        text for step in range(6) for text in reading.feed("l40s-01", "rank-3.log", BAD % step, float(step))
    ]
    assert len(said) == 1
    assert said[0].startswith("l40s-01 rank 3: ")


def test_lines_cut_anywhere_are_read_whole() -> None:
    data = b"".join(BAD % step for step in range(6))
    reading = LiveLogScanner()
    said = [t for i in range(len(data)) for t in reading.feed("a", "rank-0.log", data[i : i + 1], 0.0)]
    assert len(said) == 1


def test_good_training_other_logs_and_binary_say_nothing() -> None:
    reading = LiveLogScanner()
    assert reading.feed("a", "rank-0.log", b"".join(GOOD % step for step in range(9)), 0.0) == []
    assert reading.feed("a", "launcher.log", BAD * 6 % tuple(range(6)), 0.0) == []
    assert reading.feed("a", "rank-1.log", bytes(range(256)) * 400, 0.0) == []


def test_a_rank_that_logs_no_more_is_told() -> None:
    reading = LiveLogScanner()
    for step in range(5):
        reading.feed("a", "rank-0.log", GOOD % step, step * 10.0)
    assert reading.list_stalled(60.0) == []
    (said,) = reading.list_stalled(5000.0)
    assert "no step" in said


def test_of_a_flood_of_losses_the_bad_and_the_latest_are_read() -> None:
    flood = [GOOD % 1] * 3000
    flood[1000:1006] = [BAD % step for step in range(6)]
    assert len(LiveLogScanner().feed("a", "rank-0.log", b"".join(flood), 0.0)) == 1
    late = [GOOD % 1] * 3000 + [BAD.replace(b"nan", b"inf") % step for step in range(90)]
    assert len(LiveLogScanner().feed("a", "rank-0.log", b"".join(late), 0.0)) == 1
