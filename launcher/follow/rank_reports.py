"""What ranks report of their own end before their process ends, and what that makes of a failure. Pure."""

import signal
from collections.abc import Sequence

from launcher.follow.events import HostReport
from launcher.follow.failures import Failure
from launcher.onhost.exit_status import describe_exit_code, signal_of
from launcher.text import name_first
from preflight import regex as re

_MOST_NAMED = 4
_AFTER_EXCEPTION = 1  # with which an interpreter exits that nothing disturbs
_RAISED_AGAIN = re.compile(r"Caught \w+ in (?:\S+ ){1,4}\S+\.$")


def _is_cut_short(report: HostReport, code: int | None) -> bool:
    """Return whether a rank was ended from outside before its interpreter had shut down."""
    ended_by = signal_of(code)
    return ended_by == signal.SIGTERM or (ended_by == signal.SIGKILL and bool(report.fields.get("stopping")))


def _main_line(message: str, tail: Sequence[str]) -> str:
    """Return the line of an exception that says why.

    torch raises an exception of a worker or a replica again with its traceback as the message: the last line
    counts, which `tail` has where the message is too long to be reported in full.
    """
    first = next(iter(message.splitlines()), "")
    if not _RAISED_AGAIN.match(first):
        return first
    last = next((line.strip() for line in reversed(tail) if line.strip()), "")
    return f"{first.rstrip('.')}: {last}".removesuffix(": ")


class RankReports:
    """The exceptions and the script ends of a run's ranks."""

    def __init__(self) -> None:
        self._exceptions: dict[int, HostReport] = {}
        self._script_exits: dict[int, HostReport] = {}
        self._raised_by = 0.0  # until when what ranks raise is not the effect of the failure

    def add(self, report: HostReport, rank: int) -> None:
        """Take an exception, or the end of a rank's script."""
        reports = self._script_exits if report.event == "script_exit" else self._exceptions
        reports[rank] = report

    def has_exception(self, rank: int) -> bool:
        """Whether a rank has raised one that nothing caught."""
        return rank in self._exceptions

    def is_own_failure(self, rank: int) -> bool:
        """Whether a rank raised its exception before the one that stops the run, or before an echo's end.

        Interpreters take seconds to wind down, so the first to end need not be the first that failed.
        """
        said = self._exceptions.get(rank)
        return said is not None and said.at <= self._raised_by

    def take_first_failure(self, failure: Failure, ended_at: float) -> None:
        """Take the failure that stops the run, of a rank that ended then."""
        if failure.exception:
            self._raised_by = ended_at if failure.is_consequence else failure.at

    def build_failure(
        self, report: HostReport, rank: int, code: int | None, killed: str, kernel_oom: str
    ) -> Failure:
        """Return the failure of a rank that has ended; `killed`: how its SIGKILL is reported, if known."""
        said = self._exceptions.get(rank)
        how = killed or describe_exit_code(code)
        if said is not None and not killed and _is_cut_short(report, code):
            code, how = _AFTER_EXCEPTION, "failed"
        what = f"rank {rank} on {report.host} {how}"
        if said is None and rank in self._script_exits and (code is None or code < 0):
            what += " after its script had ended, while the interpreter shut down"
        if said is None:
            return Failure(report.host, report.at, rank, code, what, kernel_oom=kernel_oom)
        error = said.fields
        tail = error.get("tail")
        lines = tuple(str(line) for line in tail) if isinstance(tail, list) else ()
        reason = _main_line(str(error.get("message", "")), lines)
        failure = Failure(
            host=report.host,
            at=said.at,  # when it was raised, not when the interpreter had wound down
            rank=rank,
            code=code,
            summary=f"{what}: {error.get('type')}: {reason}".removesuffix(": "),
            location=str(error.get("location", "")),
            last_lines=lines,
            exception=error,
        )
        return failure.with_early_end(self._ended_before(failure)) if failure.is_consequence else failure

    def _ended_before(self, failure: Failure) -> str:
        """Return which ranks had ended without an error when another one lost its peer."""
        early = [
            f"rank {rank} on {report.host}"
            for rank, report in sorted(self._script_exits.items())
            if report.fields.get("code") == 0 and report.at <= failure.at and rank != failure.rank
        ]
        named = name_first(early, _MOST_NAMED)
        return f"the script of {named} had ended with exit code 0" if early else ""
