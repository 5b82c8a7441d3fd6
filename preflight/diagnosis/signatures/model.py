"""What a row of the signature table is, and how it finds its lines fast."""

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache, cached_property

from preflight import regex as re
from preflight.frozen import dataclass

MIN_LITERAL = 4  # characters that a literal must have to be worth looking for before the pattern is tried
# What of a pattern matters to where it may be split: escapes and classes whole, groups and bars.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|[()|]", re.DOTALL)
_PLAIN = re.compile(r"(?:[^\\.^$|()\[?*+{]|\\[^a-zA-Z0-9])+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_QUANTIFIER = re.compile(r"(?:[?*+]|\{[^}]*\})*")
_OF_MOST_ERRORS = re.compile(r"[Ee]?rror:? ?|Exception:? ?")


# NTSTATUS values, ntstatus.h: what Windows makes of an access violation, a full stack, an abort, an unknown instruction.
_ON_WINDOWS = {11: (0xC0000005, 0xC00000FD), 6: (0xC0000409,), 4: (0xC000001D,)}


def match_signal(number: int, name: str) -> str:
    """Return the pattern for an end by a signal as torch, accelerate, DeepSpeed, shells and containers print it."""
    windows = "".join(
        rf"|(?:exitcode|exit code|exit status|return code =?)\s*:?\s*(?:{code}|{code - 2**32})\b|\(0x{code:x}\)|[Ee]xception code: 0x{code:x}\b|\(0x{code:X}\)"
        for code in _ON_WINDOWS.get(number, ())
    )
    as_byte = f"|{256 - number}" if number > 1 else ""  # 255 is also what exit(-1) and ssh leave
    return (
        rf"exit_?code\s*[:=]\s*-{number}\b|FAILED \(exitcode -{number}\)|Signal {number} \(|died with <Signals\.{name}|return(?:ed)? (?:code|status) = -{number}\b|terminated with signal {name}\b"
        rf"|(?<!│ )exit(?:ed|s)?(?: with)? (?:code|status):? =?\s?-?(?:{128 + number}|-{number})\b|(?<!│ )exit code(?: is)?:? (?:{128 + number}|-{number})\b|(?:exitCode|ExitCode|exitcode):? (?:{128 + number}|-{number})\b|\(exit (?:code|status) {128 + number}\)"
        rf"|[Ee]xited with(?: a)?(?: non-?zero)?(?: return| status| exit)? (?:code|status)(?: of)? {128 + number}\b|status={128 + number}\b|status=killed|(?:[Kk]illed by signal|KILLED BY SIGNAL):? ?{number}\b|terminated by signal {number}\b|interrupted by signal {number}\b|Process finished with exit code {128 + number}\b"
        rf"|exit status {128 + number}\b|died (?:from|by) signal:? {number}\b|non-zero exit status (?:-{number}|{128 + number}{as_byte})\b|exited with signal {number}\b|signall?ed to \w+ with signal {number}\b|on signal {number} \(|^signal {number} \(\w|Exit [Cc]ode: (?:{128 + number}|-{number})\b|exit: {128 + number}\b|non-zero code: {128 + number}\b|ExitCode=\d+:{number}\b|\bWTERMSIG {number}\b|\] code -{number} log |\bSignal: [A-Z][a-z ]{{2,30}} \({number}\)|[Cc]aught signal {number} \(|EXIT STRING: [A-Z][a-z ]{{2,30}} \(signal {number}\)"
    ).replace("|status=killed", "|status=9/KILL" if number == 9 else "") + windows


class CausalDepth(IntEnum):
    """How fundamental a match is; of several, the deepest and then the earliest is the cause."""

    ROOT = 0  # says itself what went wrong
    GENERAL = 1  # a root cause unless something deeper explains it
    ENDING = 2  # only how a process ended: a signal, an abort
    VICTIM = 3  # says that another process failed


@dataclass(frozen=True)
class Signature:
    """One row. `slug` is the class of failure.

    `definitive` False: the line alone is not a failure, it counts only where something else shows one. `source`: "run"
    reproduced by us, "source" read in the library's source, "thread" a public thread, "known" general knowledge.
    `broad`: the pattern knows what a message is about and not its wording, so it is never certain.
    """

    code: str
    slug: str
    depth: CausalDepth
    pattern: str
    cause: str
    fix: str
    source: str
    definitive: bool = True
    broad: bool = False

    @cached_property
    def alternatives(self) -> "tuple[Alternative, ...]":
        """The pattern's branches, each with a literal that a line must hold to match it."""
        return AnyOf(self.pattern).alternatives


@dataclass(frozen=True)
class Alternative:
    """One branch of a pattern. `literal` "" means that every line must be tried."""

    literal: str
    pattern: str

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        """The search for the branch, compiled when a line first holds its literal: most never do."""
        compiled = re.compile(self.pattern)  # `search` would try an anchored one at every place
        return compiled.match if self.pattern.startswith("^") else compiled.search


class AnyOf:
    """A pattern of many branches, searched for fast: each branch only where its literal is."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def alternatives(self) -> "tuple[Alternative, ...]":
        """The branches, made when they are first needed."""
        return tuple(
            Alternative(find_longest_literal(branch), branch)
            for whole in split_branches(self.pattern)
            for branch in expand_branch(whole)
        )

    def is_in(self, text: str) -> bool:
        """Whether one of the branches is in a text."""
        return any(each.literal in text and each.search(text) for each in self.alternatives)


@dataclass(frozen=True, slots=True)
class Notice:
    """A line that looks alarming. `safe` says whether it may be ignored, `verdict` why."""

    code: str
    pattern: AnyOf
    safe: bool
    verdict: str


ROOT, GENERAL, ENDING, VICTIM = CausalDepth.ROOT, CausalDepth.GENERAL, CausalDepth.ENDING, CausalDepth.VICTIM


def notice(code: str, pattern: str, verdict: str, *, safe: bool) -> Notice:
    """Return a row of the notices."""
    return Notice(code, AnyOf(pattern), safe, verdict)


def split_branches(pattern: str) -> list[str]:
    """Split a pattern at the bars outside of every group, class or escape."""
    found, start, depth = [], 0, 0
    for token in _TOKEN.finditer(pattern):
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == "|" and depth == 0:
            found.append(pattern[start : token.start()])
            start = token.end()
    return [*found, pattern[start:]]


def expand_branch(branch: str, rounds: int = 2) -> list[str]:
    """Write a branch that has no literal as several: one for each branch of its first plain group."""
    if find_longest_literal(branch) or not rounds:
        return [branch]
    for start, end, choices in _plain_groups(branch):
        whole = [f"{branch[:start]}{choice}{branch[end:]}" for choice in choices]
        return [one for each in whole for one in expand_branch(each, rounds - 1)]
    return [branch]


def _plain_groups(branch: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield (start, end, branches) of the groups `(?:...)` that must occur exactly once."""
    index = 0
    while token := _TOKEN.search(branch, index):
        index = token.end()
        if token[0] == "(":
            start, index = token.start(), _end_of_group(branch, token.start())
            if branch.startswith("(?:", start) and branch[index : index + 1] not in tuple("?*+{"):
                yield start, index, split_branches(branch[start + len("(?:") : index - 1])


def select_literals(branch: str) -> tuple[str, ...]:
    """Return texts of which every match of a branch holds one: those of a group where its literal is in most errors."""
    run = _longest_run(branch)
    if _selectivity(run) >= MIN_LITERAL:
        return (run,)
    groups = (choices for _, _, choices in _plain_groups(branch))
    found = (tuple(each for choice in choices for each in select_literals(choice)) for choices in groups)
    return max(((run,), *found), key=lambda literals: min(map(_selectivity, literals)))


def _selectivity(literal: str) -> int:
    """Return how many characters of a literal set a line apart from others."""
    return 2 if _OF_MOST_ERRORS.fullmatch(literal) else sum(not char.isdigit() for char in literal)


def find_longest_literal(branch: str) -> str:
    """Return the longest run of characters that every match of a branch holds, "" when it is short."""
    best = _longest_run(branch)
    return best if len(best) >= MIN_LITERAL or not best.isascii() else ""


@cache
def _longest_run(branch: str) -> str:
    best, index = "", 0
    while index < len(branch):
        if plain := _PLAIN.match(branch, index):
            index, run = plain.end(), plain[0]
            if len(run) > len(best):
                run = _ESCAPED.sub(r"\1", run) if "\\" in run else run
                best = max(best, run[:-1] if branch.startswith(("?", "*", "{"), index) else run, key=len)
        elif branch[index] == "(":
            index = _end_of_group(branch, index)
        else:
            token = _TOKEN.match(branch, index)
            index = token.end() if token else index + 1
        quantifier = _QUANTIFIER.match(branch, index)
        index = quantifier.end() if quantifier else index
    return best


def _end_of_group(pattern: str, start: int) -> int:
    """Return the index behind the group that opens at `start`."""
    depth = 0
    for token in _TOKEN.finditer(pattern, start):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0:
            return token.end()
    return len(pattern)


@dataclass(frozen=True, slots=True)
class Advice:
    """What is said where the lines of a signature have some words; "" is the signature's own."""

    codes: str
    """Of one signature or several, with blanks between."""
    words: str
    """A pattern, in which ^ and $ are the ends of a line."""
    cause: str = ""
    fix: str = ""
    command: str | None = None
    """None: rows below may have one; "": none is right for these words."""
    in_frames: bool = False
    """Whether the words are looked for in the innermost frames (path:function), too."""
