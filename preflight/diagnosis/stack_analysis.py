"""What the ranks of a hung run execute, read from their stacks, and which of them is an outlier. Pure.

launcher/onhost/stacks.py writes the text: a line that starts with `===` for each process, then what py-spy or
faulthandler said of its threads.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
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
    missing: tuple[int, ...] = ()  # ranks of which nothing came


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


def find_outliers(stacks: Iterable[RankStack], world_size: int) -> Hang:
    """Say which ranks are outliers: where most wait for others, it is those that do not wait."""
    ranks = tuple(sorted(stacks, key=lambda stack: stack.rank))
    missing = tuple(sorted(set(range(world_size)) - {stack.rank for stack in ranks}))
    known = [stack for stack in ranks if stack.kind != "unknown"]
    waiting = [stack for stack in known if stack.kind == "waiting"]
    others = [stack for stack in known if stack.kind != "waiting"]
    apart = others if waiting and others else _minority(known)
    rest = [stack for stack in known if stack not in apart]
    summary = ", while ".join(_summary_of(group) for group in (apart, rest) if group)
    return Hang(ranks, tuple(stack.rank for stack in apart), summary, missing)


def _minority(stacks: list[RankStack]) -> list[RankStack]:
    """Return those that execute other code than more than half of them, none where no such code exists."""
    places = Counter(stack.location for stack in stacks)
    if len(places) < 2:
        return []
    place, count = places.most_common(1)[0]
    if 2 * count <= len(stacks):
        return []
    return [stack for stack in stacks if stack.location != place]


def _summary_of(stacks: list[RankStack]) -> str:
    places: dict[str, list[int]] = {}
    for stack in stacks:
        places.setdefault(stack.location, []).append(stack.rank)
    return ", ".join(f"{_ranks(ranks)} {place}" for place, ranks in places.items())


def _ranks(ranks: list[int]) -> str:
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    shown = ", ".join(map(str, ranks[:8])) + more
    return f"rank {shown}" if len(ranks) == 1 else f"each of ranks {shown}"
