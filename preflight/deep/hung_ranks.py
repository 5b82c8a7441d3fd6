"""Which rank a run of the deep checks hung or failed at. Pure."""

from collections.abc import Callable, Iterator

from preflight.deep.measurements import STEP_CODES, DeepRun, RankDeep
from preflight.frozen import dataclass

_COLLECTIVE = ("all_reduce", "batch_isend_irecv", "exchange", "barrier", "all_gather", "init_process_group")
_SHOWN_FRAMES = 3


@dataclass(frozen=True, slots=True)
class Culprit:
    """A rank to blame for the end of a run, in which step, and why it is this one."""

    rank: RankDeep
    step: str
    why: str
    stack: tuple[str, ...] = ()


def find_hung_step(run: DeepRun) -> str:
    """Return the step that a hung run was in: the latest that any rank was in."""
    order = list(STEP_CODES)
    begun = [order.index(step) for rank in run.ranks for step in rank.begun]
    return order[max(begun)] if begun else "join"


def find_culprits(run: DeepRun) -> tuple[Culprit, ...]:
    """Return who a hung run waited for; () where no rank differs from the others."""
    step = find_hung_step(run)
    for suspects, describe in _suspects(run, step):
        if suspects:
            return tuple(_blame(run, rank, step, describe(rank)) for rank in suspects)
    return ()


def _suspects(run: DeepRun, step: str) -> Iterator[tuple[list[RankDeep], Callable[[RankDeep], str]]]:
    """Yield ranks and what speaks against them, the strongest evidence first.

    Who was not in the step of the others; who missed the deadline and reported nothing, as a stopped process
    does; who was still in its own part while others waited; who was in no collective.
    """
    late = _some_of(run, lambda rank: step not in rank.begun)
    yield [rank for rank in late if not _waits_for_others(run, rank)] or late, _describe_delay
    silent = [rank for rank in run.ranks if rank.stuck is None]
    observed = [rank for rank in silent if rank.silent is not None]
    yield observed or _some_of(run, lambda rank: rank.stuck is None), _describe_silence
    if len(silent) == len(run.ranks):  # the hosts were idle before the step's time was over
        yield [rank for rank in silent if rank.rank in run.outliers], lambda _rank: run.outliers_why
    if len(run.ranks) == 1:
        yield [*run.ranks], lambda _rank: "it is the only rank, and did not end the step"
    busy = _some_of(run, lambda rank: rank.stuck is not None and not rank.stuck.waiting)
    yield busy, lambda _rank: "the others had finished and waited for it"
    apart = _some_of(run, lambda rank: rank.stuck is not None and not _in_collective(rank.stuck.stack))
    yield apart, lambda _rank: "it stood outside of the collective that the others waited in"


def _some_of(run: DeepRun, differs: Callable[[RankDeep], bool]) -> list[RankDeep]:
    """Return the ranks that differ; none where all do."""
    found = [rank for rank in run.ranks if differs(rank)]
    return found if len(found) < len(run.ranks) else []


def _waits_for_others(run: DeepRun, rank: RankDeep) -> bool:
    """Return whether a rank is still in the barrier of the step before, which lets ranks go in turn."""
    waits = rank.stuck is not None and rank.stuck.waiting
    return waits or _in_collective(run.stacks.get(rank.rank, ()))


def _describe_delay(rank: RankDeep) -> str:
    why = "it never began the step that the others were in"
    return why if rank.silent is None else f"{why}, and {_describe_silence(rank)}"


def _describe_silence(rank: RankDeep) -> str:
    if rank.silent is None:
        return "it missed the deadline and reported nothing: it is stopped, or its interpreter is blocked"
    if rank.silent.state in ("T", "t"):
        return "its process is stopped (SIGSTOP, or a debugger)"
    where = f", in the kernel's {rank.silent.waits_in}" if rank.silent.waits_in.strip("0") else ""
    return f"its interpreter is blocked (process state {rank.silent.state or 'unknown'}{where})"


def _blame(run: DeepRun, rank: RankDeep, step: str, why: str) -> Culprit:
    own = rank.stuck.stack[:_SHOWN_FRAMES] if rank.stuck is not None else ()
    return Culprit(rank, step, why, own or run.stacks.get(rank.rank, ())[:_SHOWN_FRAMES])


def _in_collective(stack: tuple[str, ...]) -> bool:
    return any(word in line for line in stack[:6] for word in _COLLECTIVE)


def takes_part(run: DeepRun, step: str) -> bool:
    """Return whether a run has such a step at all: links need others, within a host or between hosts."""
    if step in ("peer", "node"):
        return len(run.hosts) < len(run.ranks)
    return len(run.hosts) > 1 if step in ("world", "pairs") else True


def has_reported(rank: RankDeep, step: str) -> bool:
    """Return whether a rank reported the result of a step."""
    name = {"join": "facts", "host": "host_copies"}.get(step, step)
    return getattr(rank, name) is not None
