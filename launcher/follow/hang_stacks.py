"""What a hung run's stacks, which are local by now, say of it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.follow.outcome import Outcome
from launcher.rundir.log_store import LogStore
from launcher.text import sanitize

if TYPE_CHECKING:
    from preflight.diagnosis.stack_analysis import Hang

READ_BYTES = 1 << 20  # of the end of a log of stacks: `gpulaunch stacks` may have had others written before
_SHOWN_FRAMES = 20


def add_stacks(outcome: Outcome, book: LogStore) -> Outcome:
    """Return the outcome with where the ranks stood; its root cause then names the rank that stood apart."""
    cause = outcome.cause.failure
    if cause is None or not cause.hung:
        return outcome
    hang = _read(outcome, book)
    apart = [stack for stack in hang.stacks if stack.rank in hang.outliers]
    found = replace(cause, summary=f"{cause.summary}; {hang.summary}".removesuffix("; "))
    if len(apart) == 1:
        (one,) = apart
        own = one.own
        found = replace(
            found,
            host=one.host,
            rank=one.rank,
            location=f"{own.file}:{own.line}" if own else "",
            last_lines=tuple(frame.description for frame in one.frames[:_SHOWN_FRAMES]),
        )
    return replace(outcome, why=found.summary, cause=replace(outcome.cause, failure=found, hang=hang))


def _read(outcome: Outcome, book: LogStore) -> "Hang":
    from preflight.diagnosis.stack_analysis import find_outliers, read_stacks  # noqa: PLC0415 - only for a hang

    stacks = []
    for end in outcome.ranks:
        path = book.path(end.host, f"stacks-rank-{end.rank}.log")
        if not path.is_file():
            continue
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ_BYTES))
            stack = read_stacks(sanitize(file.read(READ_BYTES).decode(errors="replace")), end.host)
        if stack is not None and stack.rank == end.rank:
            stacks.append(stack)
    return find_outliers(stacks, outcome.plan.world_size)
