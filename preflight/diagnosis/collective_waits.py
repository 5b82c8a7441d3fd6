"""Which ranks waited in another collective when watchdogs gave up, and which report none. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable

from preflight import regex as re
from preflight.frozen import dataclass

_WAITS = re.compile(r"\[Rank (\d{1,6})\] Watchdog caught .{1,60}SeqNum=(\d{1,12}), OpType=(\w{1,40})")
_GROUP = re.compile(r"\[PG (?:ID )?(\d{1,6})\b")
_WORLD = "0"
_OF_PAIRS = frozenset({"SEND", "RECV", "COALESCED", "UNKNOWN"})  # two ranks of a pair call different ones
_MOST_MISSING = 8  # ranks of another host, whose log is not among these, are many


@dataclass(frozen=True, slots=True)
class WaitSummary:
    """What the reports of several ranks say together; "" where they do not say it."""

    cause: str = ""
    fix: str = ""
    command: str = ""


def summarize_waits(texts: Iterable[str], seen: Collection[int | None] = ()) -> WaitSummary:
    """Say of lines of watchdogs which ranks waited in another collective, and which report none.

    `seen`: the ranks that wrote any line of the log.
    """
    waits: dict[int, tuple[str, str]] = {}
    groups = set[str]()
    for text in texts:
        groups.update(_GROUP.findall(text))
        for rank, number, kind in _WAITS.findall(text):
            waits.setdefault(int(rank), (kind, number))
    kinds = {rank: kind for rank, (kind, _) in waits.items()}
    numbers = {number for _, number in waits.values()}
    if waits and numbers == {"1"}:
        return WaitSummary(
            command="gpulaunch bench HOSTS measures the links: a group's first collective did not end; NCCL_P2P_DISABLE=1 only as a test (slower)"
        )
    if groups == {_WORLD} and len(numbers) == 1 and _differ(kinds):
        return _of_different_calls(kinds, *numbers)
    if len(set(waits.values())) > 1:
        shown = ", ".join(f"rank {rank} waits in {kind} {number}" for rank, (kind, number) in waits.items())
        return WaitSummary(
            fix=_of_other_numbers(waits),
            command=f"{shown}: alike within one group, unless one went another way before",
        )
    known = {*range(max(waits, default=0)), *(rank for rank in seen if rank is not None)}
    missing = sorted(known - waits.keys())
    if len(waits) > 1 and 0 < len(missing) <= _MOST_MISSING and groups <= {_WORLD}:
        return WaitSummary(
            command=f"{_name(missing)} did not report, the others waited in {kinds.popitem()[1]}: look at its last lines"
        )
    return WaitSummary()


def _differ(kinds: dict[int, str]) -> bool:
    return len(set(kinds.values())) > 1 and not _OF_PAIRS & set(kinds.values())


def _of_different_calls(kinds: dict[int, str], number: str) -> WaitSummary:
    counts = Counter(kinds.values()).most_common()
    by_kind = [(kind, sorted(rank for rank, its in kinds.items() if its == kind)) for kind, _ in counts]
    shown = ", ".join(f"{_name(ranks)} {kind}" for kind, ranks in reversed(by_kind))
    alone = _name(by_kind[-1][1])
    return WaitSummary(
        cause=f"the ranks went different ways: their collective {number} is not the same one ({shown})",
        fix=f"look for what {alone} did and the others did not: its data ended earlier (drop_last=True, the same number"
        " of batches on all ranks, or model.join()), or a branch by rank evaluates, saves or skips a step",
        command="export TORCH_DISTRIBUTED_DEBUG=DETAIL",
    )


def _of_other_numbers(waits: dict[int, tuple[str, str]]) -> str:
    """Return what to look at where ranks wait in collectives of one kind and unlike numbers, else ""."""
    least = min(int(number) for _, number in waits.values())
    behind = [rank for rank, (_, number) in waits.items() if int(number) == least]
    if len({kind for kind, _ in waits.values()}) > 1 or len(behind) == len(waits):
        return ""
    return (
        f"look at {_name(behind)} first, behind the others if all are of one group: a GPU or link that hangs (sudo dmesg -T | grep -i xid"
        " on that host, gpulaunch bench HOSTS), or a step that it skipped or took twice (loaders of other lengths, a branch by rank);"
        " while it hangs, gpulaunch stacks RUN shows what each rank executes"
    )


def _name(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
