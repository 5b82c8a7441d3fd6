"""Which steps the guard looks at: all at first, then as many as its share of the training's time pays for."""

import pytest

from launcher.onhost.guard import sampling_policy
from launcher.onhost.guard.sampling_policy import (
    FIRST_LOOKS,
    FIRST_SAMPLES,
    LONGEST_S,
    SAMPLE_EVERY,
    STEPS_SHARE,
    SamplingPolicy,
    TimeBudget,
)


class Clock:
    """Time that passes only where a step or a look takes it."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sampling_policy, "time", clock)
    return clock


def train(policy: SamplingPolicy, clock: Clock, seconds: float, step_s: float, look_s: float) -> list[bool]:
    """Return of each step whether it was looked at."""
    looked = []
    end = clock.now + seconds
    while clock.now < end:
        looked.append(not policy.quiet)
        clock.now += step_s
        if not policy.quiet:
            began = clock.now
            clock.now += look_s
            policy.charge(began)
        policy.end_step()
    return looked


def test_short_steps_are_looked_at_for_their_share_of_the_time(clock: Clock) -> None:
    looked = train(SamplingPolicy(every_step=False), clock, 300.0, step_s=0.002, look_s=0.0005)
    assert all(looked[:FIRST_LOOKS])
    share = 0.0005 * sum(looked) / 300.0
    assert 0.5 * STEPS_SHARE < share < 2 * STEPS_SHARE  # and the burst at first
    assert sum(looked) < 0.01 * len(looked)


def test_long_steps_are_all_looked_at(clock: Clock) -> None:
    assert all(train(SamplingPolicy(every_step=False), clock, 600.0, step_s=1.0, look_s=0.0002))


@pytest.mark.parametrize(("step_s", "short"), [(0.01, True), (1.0, False)])
def test_steps_are_short_by_themselves_however_long_the_start_took(
    clock: Clock,
    step_s: float,
    short: bool,  # noqa: FBT001
) -> None:
    policy = SamplingPolicy(every_step=False)
    clock.now += 600.0  # imports, weights, compilation
    train(policy, clock, 20.0, step_s, look_s=0.01)
    assert policy.are_short == short


def test_a_look_that_costs_more_than_its_share_is_taken_after_a_while_all_the_same(clock: Clock) -> None:
    policy = SamplingPolicy(every_step=False)
    train(policy, clock, 60.0, step_s=0.01, look_s=0.5)
    looked = train(policy, clock, 10 * LONGEST_S, step_s=0.01, look_s=0.5)
    assert 8 <= sum(looked) <= 11


def test_what_is_suspicious_has_every_step_looked_at(clock: Clock) -> None:
    policy = SamplingPolicy(every_step=False)
    train(policy, clock, 60.0, step_s=0.001, look_s=0.001)
    assert not all(train(policy, clock, 1.0, step_s=0.001, look_s=0.001))
    policy.record_suspicion("loss", 7)
    assert all(train(policy, clock, 1.0, step_s=0.001, look_s=0.001))
    assert policy.should_sample()
    assert policy.first_bad == {"loss": 7}
    assert all(train(SamplingPolicy(every_step=True), clock, 60.0, step_s=0.001, look_s=0.001))


def test_values_are_sampled_first_and_then_in_each_25th_step_that_the_budget_allows(clock: Clock) -> None:
    policy, budget = SamplingPolicy(every_step=False), TimeBudget(0.001)
    chosen, last = [], 0
    for step in range(1, 1001):
        clock.now += 0.01
        if policy.start_step(step, last, budget):
            last = step
            chosen.append(step)
            began = clock.now
            clock.now += 0.1  # a tenth of a second each: the burst pays for two, the share for one in 100 s
            budget.charge(began)
    assert chosen[:FIRST_SAMPLES] == [1, 2, 3]
    later = [step for step in chosen if step > FIRST_SAMPLES]
    assert all(step % SAMPLE_EVERY == 0 for step in later)
    assert len(later) < 3
