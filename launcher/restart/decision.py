"""Whether a run that ended is started again, and why not. Pure: an outcome in, a decision out.

The first rule that fits says what it was. Rules for what a person wanted come first, then what the run
itself says, then how its processes ended.
"""

import signal
from collections.abc import Callable, Sequence

from launcher.config.restart_options import RestartOptions
from launcher.follow.failures import Failure
from launcher.follow.guard_reports import STOP_EXIT
from launcher.follow.job_end import PREEMPTED, TIME_LIMIT
from launcher.follow.outcome import Outcome
from launcher.follow.restart_history import StartRecord
from launcher.onhost.exit_status import signal_of
from preflight.diagnosis.failure_category import CATEGORIES, FailureCategoryName, classify_cause
from preflight.diagnosis.result import Cause
from preflight.frozen import dataclass

CRASH_LOOP_S = 60.0  # a script that finds its checkpoints, and ends sooner, made no progress
_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT)
GPU_LOST = "S40"


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run ended, as far as a restart cares."""

    category: FailureCategoryName
    description: str  # one line
    host: str = ""
    code: str = ""  # of the signature, where the logs have one
    rank: int | None = None  # whose GPU has failed by what its own log says

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes two reasons the same one."""
        return (self.category, self.code, self.host)


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The run stays ended; `retryable`: only for now, hosts may yet come back."""

    why: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class RestartRule:
    """One row: what it looks like, and what it is. A text means that a restart would not help."""

    matches: Callable[[Outcome], bool]
    category: FailureCategoryName | str


def _cause(outcome: Outcome) -> Failure | None:
    return outcome.cause.failure


def _cause_in_logs(outcome: Outcome) -> Cause | None:
    """Return what the logs say first; words about other processes and endings by signal are not that."""
    causes = outcome.cause.diagnosis.causes if outcome.cause.diagnosis is not None else ()
    return causes[0] if causes and classify_cause(causes[0]).name != "unknown" else None


def _explains(cause_in_logs: Cause) -> bool:
    """Whether it says more than the outcome does, which names exceptions and signals already."""
    from preflight.diagnosis.signatures.table import CausalDepth, find_signature  # noqa: PLC0415 - only for a failure

    row = find_signature(cause_in_logs.code)
    return row is not None and row.depth <= CausalDepth.GENERAL


def _is_echo(outcome: Outcome) -> bool:
    """Whether nothing but a host's loss explains the end: what else was reported can follow from it."""
    cause, cause_in_logs = _cause(outcome), _cause_in_logs(outcome)
    return (
        cause is None
        or cause.is_consequence
        or cause_in_logs is None
        or classify_cause(cause_in_logs).retryable
    )


def _after(matches: Callable[[Failure], bool], category: FailureCategoryName) -> RestartRule:
    return RestartRule(lambda o: (cause := _cause(o)) is not None and matches(cause), category)


_RULES: tuple[RestartRule, ...] = (
    RestartRule(lambda o: o.verdict == "finished", "it finished"),
    RestartRule(lambda o: o.verdict == "detached", "it continues"),
    RestartRule(lambda o: bool(o.cleanup.still_running), "it may continue on a host that cannot be reached"),
    RestartRule(
        lambda o: o.verdict == "interrupted" and o.why.startswith((PREEMPTED, TIME_LIMIT)),
        "Slurm ends its job",
    ),
    RestartRule(lambda o: o.verdict == "interrupted" and o.cause.signalled, "external"),
    RestartRule(lambda o: o.verdict == "interrupted", "it was stopped by hand"),
    RestartRule(
        lambda o: o.verdict == "verification_failed", "its ranks were not as planned, and would not be again"
    ),
    _after(lambda cause: cause.code == STOP_EXIT, "precision"),
    _after(lambda cause: cause.hung, "hang"),
    RestartRule(lambda o: bool(o.cleanup.lost) and _is_echo(o), "host"),
    RestartRule(lambda o: o.verdict == "aborted", "host"),  # could not be started on a host
    RestartRule(lambda o: _cause_in_logs(o) is not None, "logs"),
    _after(lambda cause: bool(cause.exception), "script"),
    _after(lambda cause: cause.rank is None and cause.code is None, "external"),  # supervisor
    _after(lambda cause: signal_of(cause.code) in _FROM_OUTSIDE, "external"),
    _after(lambda cause: signal_of(cause.code) > 0, "crash"),
    _after(lambda cause: cause.rank is not None and cause.code is not None, "script"),
    RestartRule(lambda _: True, "unknown"),
)


def classify_failure(outcome: Outcome) -> RunFailure | NoRestart:
    """Return why a run ended."""
    is_ = next(rule.category for rule in _RULES if rule.matches(outcome))
    cause_in_logs, cause = _cause_in_logs(outcome), _cause(outcome)
    if is_ == "logs" and cause_in_logs is not None:
        condemned = cause_in_logs.rank if cause_in_logs.code == GPU_LOST else None
        where = cause_in_logs.host or (cause.host if cause is not None else "")
        words = f"{outcome.why} ({cause_in_logs.cause})" if _explains(cause_in_logs) else outcome.why
        return RunFailure(classify_cause(cause_in_logs).name, words, where, cause_in_logs.code, condemned)
    nature = next((name for name in CATEGORIES if name == is_), None)
    if nature is None:
        return NoRestart(is_)
    lost = next(iter(outcome.cleanup.lost), "") if nature == "host" else ""
    words = f"{lost} was lost: {outcome.cleanup.lost[lost]}" if lost else outcome.why
    return RunFailure(nature, words, lost or (cause.host if cause is not None else ""))


def should_restart(
    reason: RunFailure | NoRestart, spec: RestartOptions, restarts: int
) -> RunFailure | NoRestart:
    """Return the reason where another start may end otherwise and is still allowed."""
    if isinstance(reason, NoRestart):
        return reason
    if not spec.is_retryable(reason.category):
        row = CATEGORIES[reason.category]
        return NoRestart(
            f"{row.description} (to try all the same: `retry_on: [{row.name}]` under `restart:`)"
        )
    if restarts >= spec.max:
        return NoRestart(f"restarted {format_count(restarts)} already, which is `max`")
    return reason


def is_crash_loop(before: Sequence[StartRecord], now: StartRecord) -> NoRestart | None:
    """Return why a run that failed as it did before has come no further since; None when it has."""
    if not before or before[-1].identity != now.identity:
        return None
    last = before[-1]
    if now.checkpoint_known and last.checkpoint_known:
        if now.last_step > last.last_step or (now.last_checkpoint and not last.last_checkpoint):
            return None
        since = f"no checkpoint newer than {now.last_checkpoint}" if now.last_checkpoint else "no checkpoint"
    elif now.seconds > CRASH_LOOP_S:
        return None
    else:
        since = f"only {now.seconds:.0f} s"
    return NoRestart(f"it ended twice in the same way, with {since} in between")


def format_count(count: int) -> str:
    """Return a number of times in words."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
