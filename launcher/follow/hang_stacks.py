"""What a hung run's stacks, which lie here by now, say of it."""

from dataclasses import replace

from launcher.follow.outcome import Outcome
from launcher.rundir.log_store import LogStore
from launcher.text import clean
from preflight.diagnosis.stack_analysis import Hang, compare, read_stacks

READ_BYTES = 1 << 20
"""Of the end of a log of stacks: `gpulaunch stacks` may have had others written before."""
_SHOWN_FRAMES = 20


def with_stacks(outcome: Outcome, book: LogStore) -> Outcome:
    """Return the outcome with where the ranks stood; its root cause then names the rank that stood apart."""
    cause = outcome.cause.failure
    if cause is None or not cause.hung:
        return outcome
    hang = _read(outcome, book)
    apart = [standing for standing in hang.standings if standing.rank in hang.apart]
    found = replace(cause, what=f"{cause.what}; {hang.words}".removesuffix("; "))
    if len(apart) == 1:
        (one,) = apart
        own = one.own
        found = replace(
            found,
            host=one.host,
            rank=one.rank,
            where=f"{own.file}:{own.line}" if own else "",
            last_lines=tuple(frame.words for frame in one.frames[:_SHOWN_FRAMES]),
        )
    return replace(outcome, why=found.what, cause=replace(outcome.cause, failure=found, hang=hang))


def _read(outcome: Outcome, book: LogStore) -> Hang:
    standings = []
    for end in outcome.ranks:
        path = book.path(end.host, f"stacks-rank-{end.rank}.log")
        if not path.is_file():
            continue
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ_BYTES))
            standing = read_stacks(clean(file.read(READ_BYTES).decode(errors="replace")), end.host)
        if standing is not None and standing.rank == end.rank:
            standings.append(standing)
    return compare(standings, outcome.plan.world_size)
