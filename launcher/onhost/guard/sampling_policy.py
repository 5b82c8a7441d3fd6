"""Record of non-finite values, and the choice of steps that are checked, and of those whose values are."""

import time

FIRST_SAMPLES = 3
FIRST_LOOKS = 12
SAMPLE_EVERY = 25
LONGEST_S = 10.0  # a sample is taken after so long whatever it costs
VALUES_SHARE = 0.0004
DTYPES_SHARE = 0.0002
STEPS_SHARE = 0.0008  # of a training's time for checks of values, of all dtypes, and the rest
SHORT_STEP_S = 0.2  # of shorter steps, those that are not checked are counted alone
_BURST_S = 0.2  # what they may take before: values go wrong early as a rule


class TimeBudget:
    """Time that a check may take: a share of the time that has passed, and a little at first."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._started = time.perf_counter()
        self._spent_s = self._last_s = 0.0
        self._spent_at = self._started

    def allows(self) -> bool:
        """Return whether the check may take what it took last."""
        now = time.perf_counter()
        allowed_s = _BURST_S + self._share * (now - self._started)
        return self._spent_s + self._last_s <= allowed_s or now - self._spent_at >= LONGEST_S

    def charge(self, began: float) -> None:
        """Count a check that began at this reading of the performance counter."""
        self._spent_at = time.perf_counter()
        self._last_s = self._spent_at - began
        self._spent_s += self._last_s


class SamplingPolicy:
    """Policy that checks the values of some steps, and of every step while something is suspicious.

    Steps that are short for what a look at them costs are `quiet`: only some of them are looked at. Of those
    that are, values are checked in each 25th, or the first one after it.
    """

    def __init__(self, *, every_step: bool) -> None:
        self.first_bad: dict[str, int] = {}  # name of a non-finite value -> the first step
        self.suspicious = False
        self.quiet = False  # the step that comes is not looked at
        self.are_short = False  # steps on average
        self._every_step = every_step
        self._chosen = False
        self._steps = 0
        self._started = self._stepped = self._looked_at = time.perf_counter()  # stepped: the first few
        self._spent_s = self._last_s = self._now_s = 0.0

    def start_step(self, step: int, last_sample: int, budget: TimeBudget) -> bool:
        """Choose whether to check values in the step that starts, and return that."""
        candidate = step // SAMPLE_EVERY > last_sample // SAMPLE_EVERY and budget.allows()
        self._chosen = self._every_step or step <= FIRST_SAMPLES or candidate
        return self._chosen

    def charge(self, began: float) -> None:
        """Count a look that began at this reading of the performance counter."""
        self._now_s += time.perf_counter() - began

    def end_step(self) -> None:
        """Choose whether to look at the next step."""
        now = time.perf_counter()
        self._steps += 1
        if self._steps <= FIRST_LOOKS:  # of any optimizer; what they take once is not counted
            self._now_s, self._looked_at, self._stepped = 0.0, now, now
            return
        if not self.quiet:
            self._last_s, self._now_s = self._now_s, 0.0
            self._spent_s += self._last_s
            self._looked_at = now
            self.are_short = now - self._stepped < SHORT_STEP_S * (self._steps - FIRST_LOOKS)
        if self._every_step or self.suspicious:
            self.quiet = False
            return
        allowed_s = _BURST_S + STEPS_SHARE * (now - self._started)
        self.quiet = self._spent_s + self._last_s > allowed_s and now - self._looked_at < LONGEST_S

    def should_sample(self) -> bool:
        """Return whether to check values in this step."""
        return self._chosen or self.suspicious

    def record_bad(self, quantity: str, step: int) -> None:
        """Record a non-finite value with its first step."""
        self.first_bad.setdefault(quantity, step)

    def record_suspicion(self, quantity: str, step: int) -> None:
        """Record a non-finite value, and have the coming steps checked."""
        self.suspicious = True
        self.quiet = False
        self.record_bad(quantity, step)
