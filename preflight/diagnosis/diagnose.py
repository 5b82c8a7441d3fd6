"""What killed a run: from its log's lines to causes, the most fundamental first. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from preflight.diagnosis import series
from preflight.diagnosis.lines import Line, read_lines
from preflight.diagnosis.tracebacks import Raised, find_raised, roots
from preflight.signatures import NOTICES, SIGNATURES, Depth, Signature

Confidence = Literal["certain", "likely", "possible"]

BENIGN = "benign"
UNKNOWN = "unknown"
USER_EXCEPTION = "user-exception"
NAN_LOSS = "nan-loss"

_MOST_EVIDENCE = 5
# Signs that something ended badly, whatever it was.
_FAILED = re.compile(
    r"Traceback \(most recent call last\)|\bFAILED\b|exitcode\s*:\s*-?[1-9]|core dumped|^(?:\w+\.)*\w*(?:Error|Exception):"
    r"|exits with return code = -?[1-9]|Exited with exit code [1-9]|returned non-zero exit status"
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that proves it; `number` counts from 1."""

    number: int
    rank: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `place` is the line of the user's own code that led to it, "file:line", where it is known."""

    code: str
    slug: str
    confidence: Confidence
    cause: str
    fix: str
    evidence: tuple[Evidence, ...]
    place: str = ""
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Warned:
    """An alarming line that is no failure, with whether it may be ignored."""

    code: str
    safe: bool
    verdict: str
    number: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer. `verdict` is the class of the first cause, "benign" for no failure, or "unknown"."""

    verdict: str
    causes: tuple[Cause, ...]
    warnings: tuple[Warned, ...]


@dataclass(frozen=True, slots=True)
class _Hit:
    row: Signature
    line: Line


def diagnose(text: str) -> Diagnosis:
    """Read a log and say what killed the run."""
    lines = read_lines(text)
    raised = find_raised(lines)
    hits = _hits(lines)
    causes = [*_from_hits(hits, raised), *_from_series(lines)]
    failed = bool(raised) or any(_FAILED.search(line.text) for line in lines)
    if not failed:
        causes = [cause for cause in causes if _tells_alone(cause)]
    ordered = _order(causes)
    fallback = _fallback(raised) if not _explained(ordered) else None
    if fallback is not None:
        ordered = (fallback, *ordered)
    if not ordered and failed:
        return Diagnosis(UNKNOWN, (), _warnings(lines))
    return Diagnosis(ordered[0].slug if ordered else BENIGN, ordered, _warnings(lines))


def _hits(lines: Sequence[Line]) -> list[_Hit]:
    return [_Hit(row, line) for line in lines if (row := _first_match(line.text)) is not None]


def _first_match(text: str) -> Signature | None:
    return next((row for row in SIGNATURES if row.pattern.search(text)), None)


def _from_hits(hits: Iterable[_Hit], raised: Sequence[Raised]) -> list[Cause]:
    by_code: dict[str, list[_Hit]] = {}
    for hit in hits:
        by_code.setdefault(hit.row.code, []).append(hit)
    return [_cause(own, raised) for own in by_code.values()]


def _cause(hits: Sequence[_Hit], raised: Sequence[Raised]) -> Cause:
    row, first = hits[0].row, hits[0].line
    same = [
        each
        for each in raised
        if each.number == first.number or row.pattern.search(f"{each.type}: {each.message}")
    ]
    place = next((f"{each.place.file}:{each.place.line}" for each in same if each.place is not None), "")
    confidence: dict[Depth, Confidence] = {
        Depth.ROOT: "certain",
        Depth.GENERAL: "likely",
        Depth.ENDING: "likely",
        Depth.VICTIM: "possible",
    }
    return Cause(
        code=row.code,
        slug=row.slug,
        confidence=confidence[row.depth],
        cause=row.cause,
        fix=row.fix,
        evidence=tuple(
            Evidence(h.line.number, h.line.rank, h.line.text.strip()) for h in hits[:_MOST_EVIDENCE]
        ),
        place=place,
        rank=first.rank,
    )


def _from_series(lines: Sequence[Line]) -> list[Cause]:
    bad = series.judge(series.read_points(lines))
    if bad is None:
        return []
    text_of = {line.number: line for line in lines}
    shown = [text_of[number] for number in bad.numbers[:_MOST_EVIDENCE]]
    return [
        Cause(
            code="S11",
            slug=NAN_LOSS,
            confidence="certain",
            cause=f"{bad.what}: pure fp16 training, a model made for bf16 in fp16, too high a learning rate, or bad data",
            fix="float32 parameters with mixed precision (bf16 where the GPUs have it); gpulaunch rehearse names the first"
            " bad step",
            evidence=tuple(Evidence(line.number, line.rank, line.text.strip()) for line in shown),
            rank=shown[0].rank,
        )
    ]


def _depth(cause: Cause) -> Depth:
    return next((row.depth for row in SIGNATURES if row.code == cause.code), Depth.ROOT)


def _order(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Deepest first, then the earliest line."""
    return tuple(sorted(causes, key=lambda cause: (_depth(cause), cause.evidence[0].number)))


def _tells_alone(cause: Cause) -> bool:
    """Whether the line counts where nothing else shows a failure."""
    row = next((row for row in SIGNATURES if row.code == cause.code), None)
    return row is None or (row.telling and not all("Warning: " in each.text for each in cause.evidence))


def _explained(ordered: Sequence[Cause]) -> bool:
    return bool(ordered) and _depth(ordered[0]) in (Depth.ROOT, Depth.GENERAL)


def _fallback(raised: Sequence[Raised]) -> Cause | None:
    """The first exception that is in no row: the user's own error, with its place."""
    own = [
        each
        for each in roots(raised)
        if each.name not in _LAUNCHER_ERRORS and _first_match(f"{each.type}: {each.message}") is None
    ]
    if not own:
        return None
    first = own[-1] if own[-1].follows == "context" else own[0]
    text = f"{first.type}: {first.message}".rstrip(": ")
    return Cause(
        code="S00",
        slug=USER_EXCEPTION,
        confidence="likely",
        cause=f"the script raised {text}",
        fix="see the traceback; gpulaunch knows no general cure for it",
        evidence=(Evidence(first.number, first.rank, text),),
        place=f"{first.place.file}:{first.place.line}" if first.place else "",
        rank=first.rank,
    )


# They only report that a child ended.
_LAUNCHER_ERRORS = frozenset(
    {"ChildFailedError", "CalledProcessError", "SignalException", "SystemExit", "ProcessExitedException"}
)


def _warnings(lines: Sequence[Line]) -> tuple[Warned, ...]:
    seen: dict[str, Warned] = {}
    for line in lines:
        for notice in NOTICES:
            if notice.code not in seen and notice.pattern.search(line.text):
                seen[notice.code] = Warned(notice.code, notice.safe, notice.verdict, line.number)
    return tuple(seen.values())
