"""Where a training stands, by what it has printed last."""

from dataclasses import replace

import pytest

from launcher.terminal.status_line import StatusValues, StepAge, render_status
from launcher.terminal.step_progress import ProgressParser, ProgressValues
from launcher.text import format_clock

TRAINER = b"{'loss': '5.048', 'grad_norm': '2.697', 'learning_rate': '2e-05', 'epoch': '0.03'}\n"


def text(status: StatusValues, width: int = 200) -> list[str]:
    return ["".join(words for _, words in row) for row in render_status(status, width)]


def test_the_last_of_each_value_is_kept() -> None:
    gauges = ProgressParser()
    gauges.feed(0, TRAINER)
    gauges.feed(0, b"\r 33%|###   | 40/120 [00:12<00:24,  2.50it/s]\r")
    read = gauges.read(1.0)
    assert (read.step, read.steps, read.loss, read.norm, read.learning_rate) == (40, 120, 5.048, 2.697, 2e-05)
    assert read.rate == (2.5, "steps")
    gauges.feed(0, b"loss: 4.0, 1200 tokens/s\n")
    read = gauges.read(2.0)
    assert (read.step, read.loss, read.norm, read.rate) == (40, 4.0, 2.697, (1200.0, "tokens"))


def test_half_a_number_is_not_read() -> None:
    gauges = ProgressParser()
    gauges.feed(0, b"loss: 1.5\nloss: 2")
    assert gauges.read(1.0).loss == 1.5
    gauges.feed(0, b"7.25\n")
    assert gauges.read(2.0).loss == 27.25


def test_a_number_beyond_all_counting_is_no_step() -> None:
    huge = b"9" * 5000
    gauges = ProgressParser()
    gauges.feed(0, b"step 3/10\niteration %b\n" % huge)
    gauges.feed(0, b"\r5/%b [00:12<%b:00:24, 2.50it/s]\r" % (huge[:400], huge[:400]))
    assert gauges.read(1.0) == ProgressValues(step=3, steps=10, rate=(2.5, "steps"))
    assert gauges.read(2.0, [f"1/2 [00:04<{huge.decode()}:01:04, 4.00s/it]"]).eta_s is None


def test_a_rank_that_is_not_the_first_may_be_the_one_that_tells() -> None:
    gauges = ProgressParser()
    gauges.feed(0, b"hello\n")
    gauges.feed(7, b"iteration 3/10 | loss: 2.0\n")
    assert gauges.read(10.0) == ProgressValues(step=3, steps=10, loss=2.0)


def test_the_end_is_foreseen_by_the_pace_of_printed_steps() -> None:
    gauges = ProgressParser()
    for step in range(1, 6):
        gauges.feed(0, b"step %d/105\n" % step)
        read = gauges.read(step * 2.0)
    assert read.eta_s == pytest.approx(200.0)
    assert gauges.read(15.0).eta_s == pytest.approx(195.0), "it comes nearer between two steps"


@pytest.mark.parametrize("backlog", [(1, 40, 400, 5000), (1, 5000), (5000,)])
def test_steps_that_a_log_had_before_it_was_followed_show_no_pace(backlog: tuple[int, ...]) -> None:
    """As `gpulaunch attach` reads them, hours after they were printed."""
    gauges = ProgressParser()
    for at, step in enumerate(backlog):
        gauges.feed(0, b"step %d/10000\n" % step)
        assert gauges.read(at * 0.1).eta_s is None
    for step in range(1, 5):
        gauges.feed(0, b"step %d/10000\n" % (5000 + step))
        read = gauges.read(10.0 * step)
    assert read.eta_s == pytest.approx(49960.0, rel=0.05)


def test_an_uneven_pace_is_a_pace() -> None:
    gauges = ProgressParser()
    for step, now in enumerate((0.0, 0.1, 4.0, 8.0, 8.1, 12.0, 16.0)):
        gauges.feed(0, b"step %d/106\n" % step)
        read = gauges.read(now)
    assert read.eta_s == pytest.approx(100 * 16 / 6)


def test_of_nested_bars_the_outer_one_knows_the_end_and_the_longer_one_the_step() -> None:
    bars = ["epochs:  50%|#| 1/2 [00:04<01:04, 4.00s/it]", "steps:  10%|#| 3/30 [00:01<00:09, 3.00it/s]"]
    read = ProgressParser().read(1.0, bars)
    assert (read.step, read.steps, read.eta_s, read.rate) == (3, 30, 64.0, (3.0, "steps"))
    unknown = [bars[0].replace("<01:04", "<?"), bars[1]]
    assert ProgressParser().read(1.0, unknown).eta_s is None, "the end of an epoch is not the end"


def test_a_rank_that_prints_without_end_is_read_from_its_end_only() -> None:
    gauges = ProgressParser()
    gauges.feed(0, b"loss: 9.0\n" * 100_000 + b"loss: 1.0\n")
    assert gauges.read(1.0).loss == 1.0


def test_fields_that_do_not_fit_go_below() -> None:
    status = StatusValues(
        "run", 751.0, ProgressValues(40, 120, 2.3125, 1.2, 2e-05, (12100.0, "tokens"), 24.0), (), 3
    )
    (row,) = text(status)
    assert row == (
        "run 12:31  step 40/120  loss 2.312  grad_norm 1.2  lr 2e-05  12.1k tokens/s  ETA 0:24"
        "  3 lines folded"
    )
    assert text(replace(status, folded=1))[0].endswith("  1 line folded")
    assert len(text(status, 40)) == 3
    assert all(len(each) <= 40 for each in text(status, 40))


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "0:05"), (751, "12:31"), (3723, "1:02:03"), (183845, "2d 03:04:05")]
)
def test_a_clock(seconds: float, words: str) -> None:
    assert format_clock(seconds) == words


def test_a_bar_of_epochs_that_outlives_the_steps_does_not_take_their_place() -> None:
    gauges = ProgressParser()
    gauges.feed(0, b"\rsteps: 98%|#| 49/50 [00:05<00:00, 9.00it/s]\r")
    gauges.feed(0, b"epochs: 50%|#| 1/2 [00:05<00:05, 0.20it/s]\r")
    gauges.read(1.0)
    gauges.feed(0, b"epochs: 100%|#| 2/2 [00:10<00:00, 0.20it/s]\n")
    read = gauges.read(2.0)
    assert (read.step, read.steps, read.rate) == (49, 50, (9.0, "steps"))


def test_a_cursor_that_comes_up_from_a_bar_hides_no_step() -> None:
    gauges = ProgressParser()
    gauges.feed(0, b"\rsteps: 50%|#| 10/20 [00:01<00:01, 9.00it/s]\x1b[Astep 10/40 \x1b[1mloss: 0.5\x1b[0m\n")
    read = gauges.read(1.0)
    assert (read.step, read.steps, read.loss) == (10, 40, 0.5)


def test_a_pause_is_told_when_it_is_long_beside_those_before() -> None:
    steps = StepAge()
    assert steps.update(0.0, None) is None
    assert [steps.update(float(now), (1, None)) for now in (100, 150, 161)] == [None, None, 61.0]
    assert steps.update(170.0, (2, None)) is None  # a step may take 70 s
    assert steps.update(305.0, (2, None)) is None
    assert steps.update(311.0, (2, None)) == 141.0
    quick = StepAge()
    assert not any(quick.update(now / 2, (None, now)) for now in range(60))
    assert quick.update(49.0, (None, 59)) is None
    assert quick.update(69.5, (None, 59)) == 40.0
    assert text(StatusValues("run", 70.0, quiet_s=40.0)) == ["run 1:10  last step 40 s ago"]
