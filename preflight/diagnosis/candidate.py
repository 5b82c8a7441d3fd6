"""One cause that a log's lines accuse, with what its place among others depends on. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from preflight import regex as re
from preflight.diagnosis.collective_waits import summarize_waits
from preflight.diagnosis.exception_origins import find_calling_library
from preflight.diagnosis.fix_commands import describe_own_memory, find_command, find_place_command
from preflight.diagnosis.lines import Line
from preflight.diagnosis.missing_modules import find_module_advice
from preflight.diagnosis.parser_messages import correct_argument, describe_refusal
from preflight.diagnosis.result import Cause, Confidence, Evidence
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.signatures.table import CausalDepth, Signature, find_advice, find_signature
from preflight.diagnosis.tracebacks import ParsedException, find_crash_place
from preflight.diagnosis.warning_lines import is_warning_line
from preflight.frozen import dataclass

MOST_EVIDENCE = 5
_ABOUT_GPUS = re.compile(r"cuda|gpu|nccl|nvidia|driver|device|distributed", re.IGNORECASE)
_MISSING_MODULE, _REFUSED_ARGUMENT, _ABORT, _REFUSED_LINE, _NO_PROGRAM = "S89", "S90", "S69", "S98", "S110"
_GPU_MEMORY, _KILLED, _TIME_LIMIT, _TIMED_OUT = "S20", "S70", "S95", "S54"
_BY_SHELL = re.compile(r"(?:.{1,200}: line \d+: +\d+ )?Killed\b")
_CPU_LIMIT = re.compile(r"^\++ ulimit (?:-\w+ )?-[HS]{0,2}t [1-9]|^cpu time +\(seconds, -t\) +\d")
# A heap or stack that the C library found corrupt; in any other abort a program ends for its own reason.
CORRUPT = re.compile(r"corrupt|\b(?:free|malloc|realloc)\(\): |munmap_chunk\(\)|stack smashing")
# The system's words for a failed call, of which its caller alone knows what it was for.
_ERRNO_ALONE = re.compile(r"Resource temporarily unavailable|Cannot allocate memory")
_OF_ERRNO = ("S21", "S48")
_NOT_ACTIVATED = re.compile(
    r"^CondaError: Run 'conda init' before|to use 'conda activate'|^Environment(?:Name|Location)NotFound|\bactivate: No such file or directory$|\bconda: command not found$"
)
# The C++ runtime's last words about an exception that nothing caught.
_THROWN = re.compile(
    r"terminate called after throwing an instance of '([^']{1,200})'(?:\n.{0,400}){0,2}?\n\s*what\(\): +(\S.{0,400})"
)
_CONFIDENCE: Mapping[CausalDepth, Confidence] = {
    CausalDepth.ROOT: "certain",
    CausalDepth.GENERAL: "likely",
    CausalDepth.ENDING: "likely",
    CausalDepth.VICTIM: "possible",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause, and what its place among others depends on."""

    cause: Cause
    depth: CausalDepth
    warning_only: bool  # only lines that warn say it
    first: Line
    secondary: bool = False  # about the GPUs and only a warning, beside an exception about other things
    broad: bool = False  # taken by what the message is about

    @classmethod
    def shown_by(
        cls,
        shown: Sequence[Line],
        depth: CausalDepth,
        kind: tuple[str, str],
        confidence: Confidence,
        words: tuple[str, str],
        *,
        location: str = "",
        command: str = "",
    ) -> Self:
        """Return a cause of kind (code, class) and words (cause, fix), of the rank of the first line."""
        at, found = shown[0], make_evidence(shown)
        cause = Cause(*kind, confidence, *words, found, location, at.rank, at.host, command)
        return cls(cause, depth, warning_only=False, first=at)

    def as_possible(self, depth: CausalDepth, *, warning_only: bool | None = None) -> Self:
        """Return it as possible only, at another depth, and where given as what only lines that warn say."""
        soft = self.warning_only if warning_only is None else warning_only
        return replace(self, cause=replace(self.cause, confidence="possible"), depth=depth, warning_only=soft)

    @property
    def key(self) -> tuple[int, bool, bool, float, int]:
        """Deepest first, firm before soft, known by its words before others, then by time and by line."""
        at = self.first.at if self.first.at is not None else (math.inf if self.first.source else 0.0)
        depth = self.depth + 1 if self.warning_only and self.secondary else self.depth
        return (depth, self.warning_only, self.broad, at, self.first.order)


def make_evidence(lines: Iterable[Line]) -> tuple[Evidence, ...]:
    """Return lines as evidence."""
    return tuple(
        Evidence(line.number, line.rank, line.text.strip(), line.source, line.host) for line in lines
    )


def make_candidate(
    found: tuple[Signature, CausalDepth, list[Line]],
    chains: Sequence[Sequence[ParsedException]],
    course: RunProgress,
    *,
    beside: Sequence[Candidate],
) -> Candidate:
    """Return the cause that the lines of one row accuse, at the depth they have in this log."""
    row, depth, lines = found
    firm = [line for line in lines if not is_warning_line(line.text)]
    shown = firm or lines
    soft = not firm
    confidence: Confidence = (
        "likely" if (soft or row.broad) and depth is CausalDepth.ROOT else _CONFIDENCE[depth]
    )
    numbers = {line.order for line in lines}
    chain = next((chain for chain in chains if any(map(numbers.__contains__, _places(chain)))), ())
    cause = Cause(
        code=row.code,
        slug=row.slug,
        confidence=confidence,
        cause=row.cause,
        fix=row.fix,
        evidence=make_evidence(shown[:MOST_EVIDENCE]),
        location=place_of(chain) or find_crash_place(course.lines, shown[0]),
        rank=shown[0].rank,
        host=shown[0].host,
        command=find_command(row.code, course.text_from(shown[:MOST_EVIDENCE])),
    )
    if row.code == _MISSING_MODULE:
        cause = add_module_advice(cause, [frame.file for each in chain for frame in each.frames])
    places = [f"{frame.path}:{frame.function}" for each in chain for frame in each.frames[-3:]]
    if not cause.command:
        cause = replace(cause, command=find_place_command(row.code, places))
    cause = _as_said(row, cause, shown, course, places)
    library = find_calling_library(chain) if row.code == _REFUSED_ARGUMENT else ""
    if library:
        cause = replace(
            cause,
            cause=f"two libraries of this environment do not fit together: {library} gives another one a keyword that it does not take",
            fix="install both in versions made for each other, or the newest of both; no change of the script helps",
            command=f"python -m pip install -U {' '.join(dict.fromkeys((library, 'transformers', 'accelerate')))}",
        )
    aside = any(not _ABOUT_GPUS.search(each.cause.cause) for each in beside if not each.warning_only)
    return Candidate(cause, depth, soft, shown[0], aside, row.broad)


def _as_said(
    row: Signature, cause: Cause, shown: Sequence[Line], course: RunProgress, places: Sequence[str]
) -> Cause:
    """Return the cause of a row as the words of its lines narrow it."""
    text = "\n".join(line.text for line in shown)
    thrown = _THROWN.search(course.text_from(shown[:1])) if row.code == _ABORT else None
    if thrown:
        return replace(cause, cause=f"native code threw {thrown[1]} and nothing caught it: {thrown[2]}")
    if row.code == _GPU_MEMORY and (held := describe_own_memory(text)):
        return replace(cause, cause=f"the process itself has filled the GPU's memory: it holds {held}")
    if row.code == _REFUSED_LINE and (said := describe_refusal(shown[0].text)):
        instead = correct_argument(shown[0], course.lines) if cause.command.endswith(" --help") else ""
        return replace(cause, cause=f"{cause.cause}: {said}", command=instead or cause.command)
    missed = _not_activated(shown[0], course) if "-m pip" in cause.command else None
    if missed is not None and row.code == _MISSING_MODULE:
        return replace(
            cause,
            cause=f"the environment was not activated (line {missed.number}), so another Python runs, which lacks a package that the script imports",
            fix="activate it before the command, and stop the script where that fails (set -e); a package is to be installed only where it is missing in that environment too",
            command=find_command(_NO_PROGRAM, missed.text) or cause.command,
            confidence=cause.confidence if missed.order >= course.start else "likely",
        )
    limits = (line.number for line in course.lines[: shown[0].order] if _CPU_LIMIT.search(line.text))
    if (
        row.code == _KILLED
        and _BY_SHELL.match(shown[0].text)
        and (by := find_signature(_TIME_LIMIT))
        and (number := next(limits, None))
    ):
        said = f"a process was killed, as the kernel does at the limit of CPU time that line {number} shows"
        return replace(cause, code=by.code, slug=by.slug, cause=said, fix=by.fix, command="")
    unclear = row.code == _ABORT and not CORRUPT.search(text)
    if row.broad and row.code in _OF_ERRNO:
        unclear = all(_ERRNO_ALONE.search(line.text) for line in shown)
    below = course.text_from(shown[:MOST_EVIDENCE])
    said, fix, command = find_advice(row.code, below, places)
    if row.code == _TIMED_OUT and not (said or fix or command):
        waits = summarize_waits((line.text for line in shown), {line.rank for line in course.lines})
        said, fix, command = waits.cause, waits.fix, waits.command
    return replace(
        cause,
        cause=said or cause.cause,
        fix=fix or cause.fix,
        command=command or cause.command,
        confidence="possible" if unclear else cause.confidence,
    )


def _not_activated(lacking: Line, course: RunProgress) -> Line | None:
    """Return the line above a missing package in which the start script failed to take its environment."""
    return next((line for line in course.lines[: lacking.order] if _NOT_ACTIVATED.search(line.text)), None)


def add_module_advice(cause: Cause, files: Sequence[str], own: Collection[str] = ()) -> Cause:
    """Return a missing module's cause with what to do about it; see `find_module_advice`."""
    advice = find_module_advice("\n".join(each.text for each in cause.evidence), files, own)
    return replace(
        cause, cause=advice.cause or cause.cause, fix=advice.fix or cause.fix, command=advice.command
    )


def _places(chain: Sequence[ParsedException]) -> Iterable[int]:
    """Yield the places of the messages of a chain of exceptions, and of what is said below them."""
    for each in chain:
        yield each.line.order
        if each.below:
            yield each.line.order + 1


def place_of(chain: Sequence[ParsedException]) -> str:
    """Return the user's line that a chain of exceptions came from: the innermost one's, where it has one."""
    return next((each.place for each in chain if each.place), "")
