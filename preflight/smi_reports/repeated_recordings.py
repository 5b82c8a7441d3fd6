"""Several recordings in one file: of one host the last counts, those of several are separated. Pure."""

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.values import LOST_VALUES, UNLISTED_LATER
from preflight.smi_reports.table import LOST, MAX_GPUS

Tree = dict[str, Any]
_Ids = tuple[tuple[str, ...], ...]
_UUID = re.compile(r"GPU-\S+")
_MEMORY = re.compile(r"\d+(?: Mi?B)?")
BUS = re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")
_CLOCK = re.compile(r"\s*(\d{4}([/-])\d\d\2\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)")
_ROW_S, _SLOW_ROW_S = 0.01, 0.02  # between rows of one listing: most of them, any of them
_LOOP_S = 0.05  # between listings of a fast `--loop-ms`
_PAUSE_S = 0.4  # between listings, whatever the other pauses are
_ONE_MOMENT_S = 60.0  # between commands that a user types one after the other
_CLEAR = 4.0  # times as long as the longest pause between rows is the shortest one between listings
_MOMENT = re.compile(
    r"\d{4}/\d\d/\d\d [\d:.]{8,}"
    r"|(?:^|[Tt]imestamp\s*[>:]\s*)[A-Z][a-z]{2} ([A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4})\s*(?:<|$)",
    re.MULTILINE,
)
"""When a recording was made: of --query-gpu, and of the others. Sessions hold the times of logins, too."""

OF_SOME = re.compile(
    r"nvidia-smi\b[^\n]* (?:-i|--id)\b"
    r"|\b(?:docker|podman|nerdctl|crictl|kubectl|apptainer|singularity|enroot|srun) "
    r"[^\n]* (?:\S*/)?(?:nvidia-smi|(?:ba|z)?sh|shell)\b|\b(?:salloc|ssh) "
)
"""A call for some of a host's GPUs, where others are hidden, or on another host."""
_OF_ABSENT = ("product_name", "uuid", "compute_mode", "processes")
_NEAR = 400  # characters above a recording, in which its call is
_NEAR_MIB = 64  # between what one GPU uses at two times
_MOST_UNNAMED = 16  # GPUs of one host; more rows without a name are those of a loop

_AGAIN = "its CSV may list GPUs again and again, and no column has their index or uuid"


class DifferentHostsError(ValueError):
    """A text holds recordings of hosts that it does not name; `texts` has those of each."""

    def __init__(self, count: int, texts: list[str]) -> None:
        super().__init__(f"it holds {count} recordings of different hosts, and each needs a file of its own")
        self.texts = texts


def split_at(text: str, starts: Sequence[int]) -> list[str]:
    """Return the parts of a text that start at these places."""
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


def find_latest(trees: list[Tree], texts: list[str], are_whole: Sequence[bool] = ()) -> int:
    """Return the place of the newest recording that has as many GPUs as any, of trees of one host.

    Without a time in each that is the last: `cat log*` puts those of a rotated log behind newer ones. One
    that is cut has fewer GPUs than those before it, or is not whole. Where a newer one has fewer since GPUs
    are gone, that is it, with these behind its own as lost. Raises DifferentHostsError where a GPU of one
    recording is not that of another, by UUID, bus, name or memory; `texts` are those of the trees.
    """
    ids = [tuple(map(_identity, list_gpus(tree))) for tree in trees]
    groups, group_of = list[list[int]](), dict[_Ids, list[int]]()
    for place, each in enumerate(ids):
        if each not in group_of:  # and no list that a loop printed thousands of times
            known = (group for group in groups if all(_are_one(ids[at], each) for at in group))
            group_of[each] = next(known, [])
            groups += [] if group_of[each] else [group_of[each]]
        group_of[each].append(place)
    if len(groups) > 1:
        raise DifferentHostsError(len(trees), ["\n".join(texts[at] for at in group) for group in groups])
    moments = [_moment(text) for text in texts]
    *_, newest = order = sorted(range(len(ids)), key=lambda at: (moments[at] if all(moments) else "", at))
    most = max(map(len, ids))
    *_, last = longest = [at for at in order if len(ids[at]) == most]
    are_whole = are_whole or [*map(_shows_all, trees)]
    gone = _gone(ids[last], ids[newest])
    is_of_some = OF_SOME.search(texts[newest - 1][-_NEAR:] + texts[newest])
    if is_of_some or trees[newest].get("attached_gpus") == str(most):
        gone = []
    if gone and (not _are_in_line(ids[last], ids[newest]) or are_whole[newest]):
        word = LOST if len(gone) < len(ids[newest]) else UNLISTED_LATER
        lost = [dict.fromkeys(_OF_ABSENT, word) | {"pci": {"bus_id": bus}} for bus in gone]
        trees[newest]["gpu"] = [*list_gpus(trees[newest]), *lost]
        return newest
    near = [at for at in longest if are_whole[at] and _is_still(trees[at], trees[last])]
    near = [at for at in near if _pauses([moments[at], moments[last]])[0] <= _ONE_MOMENT_S]
    return [last, *near][-1]


def _is_still(tree: Tree, later: Tree) -> bool:
    """Whether the GPUs that use more memory later are those that have processes already."""
    pairs = zip(list_gpus(tree), list_gpus(later), strict=False)
    return all(_listed(gpu) or _mib(now) <= _mib(gpu) + _NEAR_MIB for gpu, now in pairs)


def _shows_all(tree: Tree) -> bool:
    """Whether a tree has as many GPUs as it counts, to the end of the last one."""
    gpus = list_gpus(tree)
    return tree.get("attached_gpus") == str(len(gpus)) and "processes" in (gpus or [tree])[-1]


def _moment(text: str) -> str:
    """Return when a recording was made, in words that sort as times do; "" where it does not say."""
    found = _MOMENT.search(text)
    if found is None or not found[1]:
        return found[0] if found else ""
    with suppress(ValueError):
        return datetime.strptime(found[1], "%b %d %H:%M:%S %Y").strftime("%Y/%m/%d %H:%M:%S")  # noqa: DTZ007
    return ""


def select_newest(
    gpus: list[Tree], indexes: list[str], times: list[str], absent: Tree, *, is_loop: bool
) -> list[Tree]:
    """Return the GPUs of a CSV's rows, of one that is listed again its newest, at their `indexes`, if any.

    Raises ValueError where they are of several listings and nothing separates them.
    """
    keys = indexes or [str(gpu.get("uuid") or gpu.get("pci") or "") for gpu in gpus]
    if not any(keys):
        return _last_listing(gpus, times, is_loop=is_loop)
    newest = _last_of_each(keys, gpus, times)
    if indexes:
        return _numbered([gpu for _, gpu in newest], [key for key, _ in newest], absent)
    found = [gpu for _, gpu in newest][:MAX_GPUS]
    buses = [str(gpu.get("pci", {}).get("bus_id", "")).lower() for gpu in found]
    if all(map(BUS.fullmatch, buses)):  # as NVML numbers them
        found = [gpu for _, gpu in sorted(zip(buses, found, strict=True), key=itemgetter(0))]
    return found


def _numbered(gpus: list[Tree], indexes: list[str], absent: Tree) -> list[Tree]:
    """Return GPUs at the places that their numbers say, what is known of `absent` ones between them."""
    numbers = [int(index) if index.isdigit() and len(index) < 4 else -1 for index in indexes]
    if max(numbers) >= MAX_GPUS:
        return gpus
    order = sorted(range(len(gpus)), key=lambda at: numbers[at]) if min(numbers) >= 0 else range(len(gpus))
    placed: list[Tree] = []
    for at in order:
        placed += [absent] * (numbers[at] - len(placed)) + [gpus[at]]
    return placed


def _last_of_each(keys: Sequence[str], rows: list[Tree], times: Sequence[str]) -> list[tuple[str, Tree]]:
    """Return (key, row) of each GPU, of one that `--loop` lists again and again its last row.

    The last is the newest where each row has one of `times`. A GPU that is lost, or that no column names
    (""), is one of its own. Raises ValueError where most rows have the number and the time of the one above.
    """
    moments = [pair for pair in zip(times, keys, strict=False) if pair[1].isdigit()]
    if 2 * sum(above == below for above, below in pairwise(moments)) > len(moments):
        raise ValueError("GPUs of one time share an index in its CSV, so that is not theirs")
    own = [f"{key} {at}" if LOST in key or not key else key for at, key in enumerate(keys)]
    clocks = [clock[0] for time in times if (clock := _CLOCK.match(time))]
    pairs = list(zip(own, rows, strict=True))
    if len(clocks) == len(pairs):
        pairs = [pair for _, pair in sorted(zip(clocks, pairs, strict=True), key=itemgetter(0))]
    return [(key.partition(" ")[0], row) for key, row in dict(pairs).items()]


def _last_listing(rows: list[Tree], times: Sequence[str], *, is_loop: bool) -> list[Tree]:
    """Return the rows of the last whole listing, of rows that no column names and that have `times` or none.

    Raises ValueError where they may be of several and nothing separates them.
    """
    pauses = _pauses(times) or [0.0] * (len(rows) - 1)
    steps = [long for short, long in pairwise(sorted(pauses)) if long >= _CLEAR * short and long >= _ROW_S]
    is_even = len(steps) == 1 and sum(steps[0] <= pause < _CLEAR * steps[0] for pause in pauses) > 1
    least = min([_PAUSE_S, *(long for long in steps if is_even or long >= _LOOP_S)])
    starts = [0, *(at for at, pause in enumerate(pauses, 1) if pause >= least), len(rows)]
    between = [pause for pause in pauses if pause >= least]
    sizes = [end - start for start, end in pairwise(starts)]
    if between and sizes[-1] > max(sizes[:-1]) and not _CLOCK.match(times[-1]):
        return _last_listing(rows[:-1], times[:-1], is_loop=is_loop)  # without one whose time is cut
    whole, longest = max(sizes), max((pause for pause in pauses if pause < least), default=0.0)
    if between:
        is_clear = min(between) >= _CLEAR * longest and all(size == whole for size in sizes[1:-1])
        is_clear &= sizes.count(whole) > (1 if least >= _LOOP_S else 2) or (
            min(between) >= _PAUSE_S and longest < _LOOP_S
        )
    else:
        is_clear = len(rows) < 2 or (not is_loop and longest < _SLOW_ROW_S and min(pauses) < _ROW_S)
        is_clear &= bool(times) or whole > _MOST_UNNAMED or not count_repeated(rows, 3)
    if whole > _MOST_UNNAMED or not is_clear:
        unlike = dict.fromkeys(str(gpu.get("product_name", "of no name")) for gpu in rows)
        raise ValueError(f"{_AGAIN}: it has at least {len(unlike)} ({', '.join(unlike)})")
    at = max(at for at, size in enumerate(sizes) if size == whole)
    return rows[starts[at] : starts[at + 1]]


def count_repeated(rows: list[Tree], rounds: int) -> int:
    """Return how many unlike GPUs, so many times or more, rows without a time look like, 0 for none."""
    sizes = [gpu.get("fb_memory_usage", {}) for gpu in rows]
    used = [re.match(r"\d+", str(each.get("used", ""))) for each in sizes]
    known = [(gpu.get("product_name"), each.get("total")) for gpu, each in zip(rows, sizes, strict=True)]

    def are_alike(one: int, other: int) -> bool:
        first, second = used[one], used[other]
        is_near = first and second and abs(int(first[0]) - int(second[0])) <= _NEAR_MIB
        return known[one] == known[other] and bool(is_near)

    counts = (
        count
        for count in range(2, len(rows) // rounds + 1)
        if all(are_alike(at, at + count) for at in range(len(rows) - count))
        and not all(are_alike(0, at) for at in range(count))
    )
    return next(counts, 0)


def _pauses(times: Sequence[str]) -> list[float]:
    """Return the seconds from each time to the next: none to and from one that a row lost."""
    pauses, last = list[float](), None
    for time in times:
        now, clock = last, _CLOCK.match(time)
        with suppress(ValueError):
            now = datetime.fromisoformat(clock[1].replace("/", "-")) if clock else last
        since = (now - last).total_seconds() if now and last else 0.0
        pauses.append(since if since >= 0 else math.inf)
        last = now
    return pauses[1:]


def keep_processes(trees: list[Tree], texts: Sequence[str] = ()) -> None:
    """Give GPUs of the last recording the processes that an earlier one lists, where it lists none.

    A container lists no process of its host: the memory of those is still in use then. What a loop has
    listed again and again, and lists no more, has ended; so has what a recording of another moment lists.
    `texts` are those of the trees.
    """
    moments = [_moment(text) for text in texts]
    if moments and _pauses([next(filter(None, moments[:-1]), ""), moments[-1]])[0] > _ONE_MOMENT_S:
        return
    for place, gpu in enumerate(list_gpus(trees[-1])):
        lists = [_listed(gpus[place]) for tree in trees[:-1] if place < len(gpus := list_gpus(tree))]
        named = [
            held for held in lists if held and all(map(_mib, held)) and sum(map(_mib, held)) <= _mib(gpu)
        ]
        pids = [[process.get("pid") for process in held] for held in named[-2:]]
        if _listed(gpu) == [] and pids and pids[0] not in pids[1:]:
            gpu["processes"] = {"process_info": named[-1]}


def add_other_groups(trees: list[Tree], texts: list[str]) -> None:
    """Give GPUs of the last recording what earlier ones hold, where `-d` made them hold different groups.

    One that was made much earlier says nothing of memory and processes of the same moment.
    """
    for earlier, text in reversed([*zip(trees, texts, strict=True)][:-1]):
        is_near = _pauses([_moment(text), _moment(texts[-1])])[0] <= _ONE_MOMENT_S
        for gpu, other in zip(list_gpus(trees[-1]), list_gpus(earlier) if is_near else (), strict=False):
            if gpu.keys() & other.keys() <= {"@id"}:
                gpu.update(other)


def _listed(gpu: Tree) -> list[Tree] | None:
    group = gpu.get("processes")
    return group.get("process_info") if isinstance(group, dict) else None


def _mib(holder: Tree) -> int:
    """Return the memory of a process or the memory in use of a GPU, 0 where it has none."""
    memory = holder.get("fb_memory_usage")
    text = str(memory.get("used", "")) if isinstance(memory, dict) else holder.get("used_memory") or ""
    number = re.match(r"\d{1,12}", text)
    return int(number[0]) if number else 0


def _are_one(left: _Ids, right: _Ids) -> bool:
    """Whether two lists may be of the same GPUs, of which one may have lost some."""
    return _are_in_line(left, right) or bool(_gone(left, right) or _gone(right, left))


def _are_in_line(left: _Ids, right: _Ids) -> bool:
    pairs = zip(left, right, strict=False)
    return not any(is_different(*values) for one, two in pairs for values in zip(one, two, strict=True))


def _gone(many: _Ids, few: _Ids) -> list[str]:
    """Return the buses of GPUs that are no longer listed where others still are, [] for other lists."""
    still = {uuid or bus: gpu for gpu in few for uuid, bus, *_ in [gpu]}
    gone = [gpu for gpu in many if (gpu[0] or gpu[1]) not in still]
    kept = tuple(gpu for gpu in many if gpu not in gone)
    is_part = "" not in still and len(kept) == len(few) > 0 and _are_in_line(kept, few)
    return [bus for _, bus, *_ in gone] if is_part else []


def list_gpus(tree: Tree) -> list[Tree]:
    """Return the GPUs of a tree, of which XML with one has no list."""
    gpus = tree.get("gpu", [])
    return [gpu for gpu in (gpus if isinstance(gpus, list) else [gpus]) if isinstance(gpu, dict)]


def is_different(left: str, right: str) -> bool:
    """Whether two values are not the same, of which one may be cut, with "..." or without."""
    left, right = left.removesuffix("..."), right.removesuffix("...")
    return not (left.startswith(right) or right.startswith(left))


def _identity(gpu: Tree) -> tuple[str, ...]:
    """Return what stays the same of a GPU; "" for what a recording does not say, or cuts short."""
    pci, memory = gpu.get("pci"), gpu.get("fb_memory_usage")
    uuid, name = str(gpu.get("uuid", gpu.get("gpu_uuid", ""))), str(gpu.get("product_name", ""))
    bus = gpu.get("@id") or (pci.get("bus_id") if isinstance(pci, dict) else None)
    total = str(memory.get("total", "")) if isinstance(memory, dict) else ""
    total = total if _MEMORY.fullmatch(total) else ""
    values = (uuid if _UUID.fullmatch(uuid) else "", str(bus or "").lower(), name, total)
    return tuple("" if value in (LOST, *LOST_VALUES) else value for value in values)
