"""What the ranks of a hung run execute, read from their stacks, and which of them is an outlier. Pure.

launcher/onhost/stacks.py writes the text: a line that starts with `===` for each process, then what py-spy or
faulthandler said of its threads.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import takewhile
from typing import Literal, TypeAlias

from preflight import regex as re
from preflight.frozen import dataclass

RankActivity: TypeAlias = Literal["waiting", "running", "stopped", "unknown"]

_HEAD = re.compile(
    r"^=== (?P<child>a child of )?rank (?P<rank>\d{1,9}), pid (?P<pid>\d{1,9}), state (?P<state>[^,]*)"
)
_FAULTHANDLER = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d{1,9}) in (?P<function>.+)$')
_PY_SPY = re.compile(r"^ {4}(?P<function>\S.*) \((?P<file>.*?)(?::(?P<line>\d{1,9}))?\)$")
_THREAD = re.compile(r"^(?:Thread|Current thread) ")
_LIBRARY = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python3[^/]*)/|^<")
_OURS = re.compile(r"(?:^|/gpulaunch/runs/(?:[^/]+/){1,2})(?:rank|guard)\.py$|^gpulaunch_(?:rank|guard)/")
_DISTRIBUTED = re.compile(r"(?:^|/)torch/distributed/")
_BACKWARD = re.compile(r"(?:^|/)torch/(?:autograd/|_tensor\.py)")
_LOADER = re.compile(r"(?:^|/)torch/utils/data/")
_WRAPPERS = re.compile(r"wrapper|<locals>|decorate|inner")


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call: the function, and the line that it executes."""

    function: str
    file: str
    line: int

    @property
    def description(self) -> str:
        """The place, short."""
        name = self.file.rpartition("/")[2]
        return f"{self.function} ({name}:{self.line})" if self.line else f"{self.function} ({name})"


@dataclass(frozen=True, slots=True)
class RankStack:
    """One rank's main thread, innermost call first; none when no stacks could be had."""

    rank: int
    host: str
    pid: int
    state: str  # the kernel's letter, and where it waits in the kernel
    frames: tuple[StackFrame, ...] = ()

    @property
    def own(self) -> StackFrame | None:
        """The innermost call in the user's own code."""
        return next((frame for frame in self.frames if not _LIBRARY.search(frame.file)), None)

    @property
    def collective(self) -> str:
        """The function of torch.distributed that it is in, or backward, which waits for others too.

        Only below the user's innermost code: a wrapped model's forward is above it, and waits for no rank.
        """
        called = list(takewhile(lambda frame: _LIBRARY.search(frame.file), self.frames))
        below = [frame for frame in called if _DISTRIBUTED.search(frame.file)]
        names = [frame.function for frame in below if not _WRAPPERS.search(frame.function)]
        if names:
            return names[-1]
        return "backward" if any(_BACKWARD.search(frame.file) for frame in called) else ""

    @property
    def kind(self) -> RankActivity:
        """Whether it waits for other ranks, executes something of its own, is stopped, or is not known."""
        if self.state[:1] in ("T", "t"):
            return "stopped"
        if not self.frames:
            return "unknown"
        return "waiting" if self.collective else "running"

    @property
    def location(self) -> str:
        """What it executes, in words that are alike for ranks that execute the same."""
        own = self.own
        if self.kind == "stopped":
            return "is stopped (SIGSTOP, or a debugger)"
        if self.kind == "unknown":
            return f"gave no stacks (state {self.state})"
        if self.kind == "waiting":
            return f"waits in {self.collective}" + (f", called by {own.description}" if own else "")
        if any(_LOADER.search(frame.file) for frame in self.frames):
            return "waits for the data loader" + (f" in {own.description}" if own else "")
        if _OURS.search(self.frames[0].file):
            return "is outside its script: it has not started, or has come to its end"
        return f"executes {(own or self.frames[0]).description}"


@dataclass(frozen=True, slots=True)
class Hang:
    """What the stacks of a hung run say."""

    stacks: tuple[RankStack, ...]
    outliers: tuple[int, ...] = ()  # ranks that execute other code than most
    summary: str = ""
    missing: tuple[int, ...] = field(default=())  # ranks of which nothing came


def read_stacks(text: str, host: str) -> RankStack | None:
    """Return how a rank stood when its stacks were last written, None when there are none in the text."""
    found: RankStack | None = None
    for head, body in _dumps(text.splitlines()):
        match = _HEAD.match(head)
        if match is None or match["child"]:
            continue
        rank, pid = int(match["rank"]), int(match["pid"])
        found = RankStack(rank, host, pid, match["state"].strip(), _main_thread(body))
    return found


def _dumps(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    head, body = "", list[str]()
    for line in lines:
        if line.startswith("==="):
            if head:
                yield head, body
            head, body = line, []
        else:
            body.append(line)
    if head:
        yield head, body


def _main_thread(lines: Iterable[str]) -> tuple[StackFrame, ...]:
    """Return the frames of the main thread: py-spy names it, faulthandler writes the oldest thread last."""
    threads: list[tuple[str, list[StackFrame]]] = []
    for line in lines:
        if _THREAD.match(line):
            threads.append((line, []))
            continue
        match = _FAULTHANDLER.match(line) or _PY_SPY.match(line)
        if match is not None and threads:
            threads[-1][1].append(StackFrame(match["function"], match["file"], int(match["line"] or 0)))
    named = [frames for head, frames in threads if '"MainThread"' in head]
    every = [frames for _, frames in threads]
    frames = (named or every[-1:] or [[]])[0]
    scripts = [frame for frame in frames if not _OURS.search(frame.file)]
    return tuple(scripts or frames)  # ours alone: the script has not started, or has come to its end


def find_outliers(standings: Iterable[RankStack], world_size: int) -> Hang:
    """Say which ranks are outliers: where most wait for others, it is those that do not wait."""
    ranks = tuple(sorted(standings, key=lambda standing: standing.rank))
    missing = tuple(sorted(set(range(world_size)) - {standing.rank for standing in ranks}))
    known = [standing for standing in ranks if standing.kind != "unknown"]
    waiting = [standing for standing in known if standing.kind == "waiting"]
    others = [standing for standing in known if standing.kind != "waiting"]
    apart = others if waiting and others else _minority(known)
    rest = [standing for standing in known if standing not in apart]
    return Hang(ranks, tuple(standing.rank for standing in apart), _words(apart, rest), missing)


def _minority(standings: list[RankStack]) -> list[RankStack]:
    """Return those that execute other code than more than half of them do, none when there is no such place."""
    places = Counter(standing.location for standing in standings)
    if len(places) < 2:
        return []
    place, count = places.most_common(1)[0]
    if 2 * count <= len(standings):
        return []
    return [standing for standing in standings if standing.location != place]


def _words(apart: list[RankStack], rest: list[RankStack]) -> str:
    said = [_grouped(group) for group in (apart, rest) if group]
    return ", while ".join(said)


def _grouped(standings: list[RankStack]) -> str:
    places: dict[str, list[int]] = {}
    for standing in standings:
        places.setdefault(standing.location, []).append(standing.rank)
    return ", ".join(f"{_ranks(ranks)} {place}" for place, ranks in places.items())


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8]) + (
        f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    )
    return f"rank {shown}" if len(ranks) == 1 else f"each of ranks {shown}"
