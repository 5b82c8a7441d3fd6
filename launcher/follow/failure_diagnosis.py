"""Why a run died: what `diagnose` makes of the last lines that the failing rank and its launcher wrote."""

from dataclasses import replace
from pathlib import Path

from launcher.follow.outcome import Outcome
from launcher.follow.run_commands import list_places, with_run_commands
from launcher.local.own_modules import own_modules
from launcher.rundir.log_store import LogStore

LAST_LINES = 400
SHOWN_LINES = 20


def add_last_lines(outcome: Outcome, book: LogStore) -> Outcome:
    """Return the outcome with what the log of the root cause ended with, where no exception has it."""
    cause = outcome.cause.failure
    if cause is None or cause.last_lines:
        return outcome
    log = "launcher.log" if cause.rank is None else f"rank-{cause.rank}.log"
    lines = book.last_lines(cause.host, log, SHOWN_LINES)
    return replace(outcome, cause=replace(outcome.cause, failure=replace(cause, last_lines=lines)))


def add_diagnosis(outcome: Outcome, book: LogStore) -> Outcome:
    """Return the outcome with a diagnosis where a rank or a launcher failed; logs are read from memory."""
    cause = outcome.cause.failure
    if cause is None or cause.hung:  # its logs end with our own SIGTERM; its stacks say more
        return outcome
    from preflight.diagnosis.context import Context  # noqa: PLC0415 - only a failure needs what is behind it
    from preflight.diagnosis.diagnose import diagnose_logs  # noqa: PLC0415
    from preflight.diagnosis.lines import Log  # noqa: PLC0415
    from preflight.facts.host import KernelLog  # noqa: PLC0415

    names = ["launcher.log"] if cause.rank is None else [f"rank-{cause.rank}.log", "launcher.log"]
    logs = tuple(
        Log(
            "\n".join(lines),
            f"{cause.host}/{name}",
            None if name == "launcher.log" else cause.rank,
            cause.host,
        )
        for name in names
        if (lines := book.last_lines(cause.host, name, LAST_LINES))
    )
    codes = () if cause.code is None else (cause.code,)
    signals = tuple(-code for code in codes if code < 0)
    # What supervisors count is in the kernel's log too, which an ordinary user may often not read.
    kernel = (KernelLog("kmsg", (), (cause.kernel_oom,), ()),) if cause.kernel_oom else ()
    own = own_modules(Path.cwd())
    found = diagnose_logs(
        logs, Context(kernel_logs=kernel, exit_codes=codes, exit_signals=signals, own_modules=own)
    )
    return replace(
        outcome,
        cause=replace(outcome.cause, diagnosis=with_run_commands(found, list_places(outcome.plan.nodes))),
    )
