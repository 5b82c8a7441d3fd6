"""The guard of one rank: it hooks into torch, and passes each event to the checks that handle it."""

import atexit
import contextlib
import os
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Iterable

from .async_reads import AsyncReads
from .check_table import FIRST_STEPS, list_checks
from .checks.dtypes import mismatched_dtypes
from .checks.grad_scaler import ScalerMonitor
from .checks.loss_and_norm import LossMonitor
from .checks.non_finite import FiniteMonitor
from .context import GuardContext, RankServices
from .rank_exit import GuardExit
from .reporter import GuardReporter, MonitorParts, Violation
from .safe_call import SafeCaller
from .sampling_policy import SamplingPolicy
from .torch_hooks import hook_backward, hook_clipping, hook_scalers, hook_steps
from .training_state import Step, TrainingState, WatchedOptimizer

if TYPE_CHECKING:
    from .rehearsal.rehearsal import Rehearsal


COUNT_EVERY_S = 1.0


class StepFile:
    """Number of steps, in a file of the run directory."""

    def __init__(self, place: GuardContext) -> None:
        self._path = os.path.join(place.run_dir, "steps-rank-%d" % place.rank)
        self._fd = -1
        self._written_at = 0.0

    def is_due(self) -> bool:
        """Return whether the last number is old enough."""
        return time.monotonic() - self._written_at >= COUNT_EVERY_S

    def write(self, steps: int) -> None:
        """Replace the number."""
        self._written_at = time.monotonic()
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._fd, b"%d\n" % steps, 0)


class Guard:
    """All monitors and checks of this rank. With `steps`, the run is a rehearsal of that many steps."""

    def __init__(self, place: GuardContext, tools: RankServices, *, stops: bool, steps: int = 0) -> None:
        training = self.training = TrainingState(place, tools)
        self.leaving = GuardExit(tools.report, self._finish)
        self.safety = SafeCaller(training, self.leaving)
        self.reporter = GuardReporter(training, self.leaving, stops=stops)
        self.readings = AsyncReads()
        self.rehearsal = self._rehearsal_of(steps) if steps else None
        self.evidence = SamplingPolicy(every_step=steps > 0)
        heard = self.rehearsal.on_value if self.rehearsal else _ignore
        skipped = self.rehearsal.count_step if self.rehearsal else _ignore
        parts = MonitorParts(training, self.reporter, self.readings, self.evidence)
        self.notes = LossMonitor(parts, heard)
        self.values = FiniteMonitor(parts)
        self.scaling = ScalerMonitor(training, self.reporter, skipped)
        self.rows = list_checks(self.values)
        self._lasting = tuple(row for row in self.rows if row.lasting)
        self._steps_file = StepFile(place)
        self._is_active = False  # in the step that an optimizer performs

    def modules(self) -> dict[str, Callable[[ModuleType], None]]:
        """Return the modules to watch besides torch, and the hook to call once each one is imported."""
        return {} if self.rehearsal is None else self.rehearsal.modules(self.safety)

    def install(self, torch: Any) -> None:
        """Hook into torch; called right after the script's `import torch`."""
        self.training.torch = torch
        safely, safety, notes = self.safety.call, self.safety, self.notes
        policy = self.evidence
        hook_steps(torch, self._before_step, self._after_step)
        safely("watch GradScaler", hook_scalers, torch, safety, self.training, self.scaling, notes)
        safely("watch clip_grad_norm_", hook_clipping, torch, safety, notes, policy)
        safely("watch backward", hook_backward, torch, safety, notes, policy)
        atexit.register(self._at_exit)

    # --- a step ---

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        counts = self.evidence.quiet and self.evidence.are_short  # which harms no worker and no graph
        self._is_active = counts or self.safety.is_active()
        if not self._is_active:
            return
        self.training.fired += 1
        seen = self.training.record(optimizer)
        seen.tries += 1
        seen.fired += 1
        if self.evidence.quiet:
            if not counts:
                self.safety.call("compare dtypes", self._compare_dtypes, optimizer, seen)
            return
        began = time.perf_counter()
        closure = any(callable(each) for each in (*args, *kwargs.values()))
        self.safety.call("look before a step", self._look_before, optimizer, seen, closure)
        self.evidence.charge(began)

    def _compare_dtypes(self, optimizer: Any, seen: WatchedOptimizer) -> None:
        self._look(mismatched_dtypes, Step(self.training, optimizer, seen, has_closure=False))

    def _look_before(self, optimizer: Any, seen: WatchedOptimizer, has_closure: bool) -> None:  # noqa: FBT001 - through call()
        step = Step(self.training, optimizer, seen, has_closure)
        if self.evidence.start_step(seen.tries, seen.last_sample, seen.values_budget):
            seen.last_sample = seen.tries
        for row in self.rows if seen.fired <= FIRST_STEPS else self._lasting:
            if row.when(step):
                self.safety.call(row.what, self._look, row.look, step)
        if self.rehearsal is not None and not has_closure:
            self.safety.call("rehearse gradients", self.rehearsal.record_gradients, optimizer)

    def _look(self, look: Callable[[Step], Iterable[Violation]], step: Step) -> None:
        for wrong in look(step):
            self.reporter.report(wrong, step.number)

    def _after_step(self, optimizer: Any) -> None:
        if not self._is_active:
            return
        if self.leaving.code is not None:
            self.safety.is_active()  # which ends a rank that is to stop
        if not self.evidence.quiet:
            began = time.perf_counter()
            self.safety.call("look after a step", self._look_after, optimizer)
            self.evidence.charge(began)
        self.evidence.end_step()
        if self._steps_file.is_due() and self.safety.is_own_process():
            self.safety.call("count a step", self._steps_file.write, self.training.fired)
        if self.rehearsal is not None:
            seen = self.training.record(optimizer)
            self.safety.call("count a rehearsed step", self.rehearsal.count_step, seen)

    def _look_after(self, optimizer: Any) -> None:
        self.readings.poll()
        if self.evidence.should_sample():
            self.evidence.suspicious = False
            self.notes.send()
            self.values.weights(optimizer)
            self.readings.poll()

    # --- a rehearsal, and the end ---

    def _rehearsal_of(self, steps: int) -> "Rehearsal":
        from .rehearsal.rehearsal import Rehearsal  # most runs are not rehearsals, and start without it

        return Rehearsal(self.training, steps, self._end_rehearsal)

    def _end_rehearsal(self) -> None:
        self.readings.poll()
        self.leaving.raise_exit(0)

    def _at_exit(self) -> None:
        if self.safety.is_own_process():
            self._finish()

    def _finish(self) -> None:
        """Report the outstanding results, and shut down the threads that would block the exit."""
        self.reporter.stops = False  # too late to stop the rank, not to report
        with contextlib.suppress(Exception):
            cuda = self.training.torch.cuda
            if cuda.is_initialized():
                cuda.synchronize()
            self.notes.send()
            self.readings.poll()
        if self.rehearsal is not None:
            with contextlib.suppress(Exception):
                self.rehearsal.report(self.values, self.scaling, self.evidence)
        with contextlib.suppress(Exception):
            self.leaving.clean_exit()


def _ignore(*_: object) -> None:
    """Discard a value outside a rehearsal."""
