"""What killed a run: from its log's lines to causes, the most fundamental first. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from preflight import regex as re
from preflight.diagnosis import trends
from preflight.diagnosis.candidate import MOST_EVIDENCE, Candidate
from preflight.diagnosis.candidates import list_candidates
from preflight.diagnosis.condensed_log import condense
from preflight.diagnosis.contradictions import doubt_causes
from preflight.diagnosis.data_tables import blank_data_tables
from preflight.diagnosis.error_lines import ends_in_error, find_error_lines
from preflight.diagnosis.exception_shapes import select_exceptions
from preflight.diagnosis.host_evidence import Context, apply_context
from preflight.diagnosis.lines import Line, Log, read_logs
from preflight.diagnosis.outlived_exceptions import blank_ignored, blank_outlived, blank_replaced
from preflight.diagnosis.pod_events import blank_recovered
from preflight.diagnosis.quoted_text import blank_samples, is_shown_text
from preflight.diagnosis.rank_exits import exit_candidates
from preflight.diagnosis.result import (
    BENIGN,
    NAN_CODE,
    NAN_LOSS,
    UNKNOWN,
    BenignWarning,
    Cause,
    Diagnosis,
    Evidence,
)
from preflight.diagnosis.run_ends import COUNTED_RUNS
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.series import Point, find_lost_objective, read_points
from preflight.diagnosis.signature_matcher import JoinedLines, find_hits, is_harmless, zero_numbers
from preflight.diagnosis.signatures.table import NOTICES, CausalDepth, find_signature
from preflight.diagnosis.tracebacks import is_quoted, parse_exceptions
from preflight.diagnosis.warning_lines import is_warning_line

_MOST_OF_A_SENTENCE = 6  # lines of a text that is a person's report and not a log
_HEADER = "Traceback (most"  # it may be cut off itself
_CUT = 2  # lines at a log's end of which one shows code where it is cut within a traceback
_IN_A_SENTENCE = re.compile(
    r"(?:[\s(\"'`*]|(?<=[^\x00-\x7f]))(?=(?:[A-Za-z_]\w{0,40}\.){0,6}[A-Z]\w{0,40}(?:Error|Exception): \S)"
)
# A person who says how a run ended, and shows no line of it.
_COMPLAINT = re.compile(
    r"(?=.{0,400}(?:\b[a-z']{1,20},? ){5})(?!.{0,30}\d\d:\d\d|\S+\.py:\d+: ).{0,400}\b(?:crash(?:es|ed|ing)?|hang(?:s|ing)?|hung|froze|freezes?|stuck|won't (?:move|start|continue)|(?:gets?|got|was|is) killed|dies|died|(?<!not )(?<!n't )fail(?:s|ed)?|does(?: not|n't) (?:work|start|run)|stop(?:s|ped) (?:suddenly|unexpectedly|without))\b"
)
_NAN_FIX = (
    "float32 parameters with mixed precision (bf16 where the GPUs have it), a lower learning rate; gpulaunch rehearse"
    " names the first bad step"
)


def diagnose(text: str, context: Context | None = None) -> Diagnosis:
    """Read one log and say what killed the run."""
    return diagnose_logs((Log(text),), context)


def diagnose_logs(logs: Sequence[Log], context: Context | None = None) -> Diagnosis:
    """Read several logs of one run and say what killed it."""
    return diagnose_lines(read_logs(tuple(map(condense, logs))), context)


def diagnose_lines(lines: Sequence[Line], context: Context | None = None) -> Diagnosis:
    """Say what killed a run from lines that were read already."""
    return _diagnose(lines, context, beside_earlier=True)


def _diagnose(lines: Sequence[Line], context: Context | None, *, beside_earlier: bool) -> Diagnosis:
    lines = blank_samples(blank_data_tables(blank_recovered(lines)))
    lines = blank_outlived(blank_ignored(blank_replaced(lines)))
    parsed = [each for each in parse_exceptions(lines) if not (each.bare and is_harmless(each.line.text))]
    raised, hits = select_exceptions(parsed, find_hits(lines))
    course = RunProgress(lines)
    found = list_candidates(hits, raised, course)
    found = doubt_causes(found, raised, course)
    exits = exit_candidates(lines, raised, found, course)
    counted = max((at for at in course.done if COUNTED_RUNS.search(lines[at].text)), default=-1)
    found += [*exits, *(each for each in _from_series(lines) if each.first.order > counted)]
    if not found and (said := _as_logged(lines, course)) is not lines:
        return diagnose_lines(said, context)
    failed = (
        ends_in_error(lines, course)
        or (bool(course.failing) and not course.has_continued(course.failing[-1].order))
        or _ends_in_traceback(lines, course)
    )
    found += find_error_lines(lines, [each for each in found if each not in exits], course, failed=failed)
    ordered = sorted(found, key=lambda candidate: candidate.key)
    causes = tuple(candidate.cause for candidate in ordered)
    if context is not None:
        causes = apply_context(causes, context)
    if course.start and beside_earlier and (causes or failed):
        causes = _beside_earlier(causes, lines[: course.start])
    nothing = UNKNOWN if failed or _failed(context) or _is_complaint(lines, course) else BENIGN
    warnings = _warnings(lines)
    ended = course.start or max((each.line.order + 1 for each in raised), default=0)
    if not causes and nothing == BENIGN and ended and beside_earlier:
        warnings = (*_of_earlier(lines[:ended], outlived=not course.start), *warnings)
    return Diagnosis(causes[0].slug if causes else nothing, causes, warnings)


def _of_earlier(earlier: Sequence[Line], *, outlived: bool) -> tuple[BenignWarning, ...]:
    """Return how the run before ended, or what this one outlived: a note only, as the last run went well."""
    return tuple(
        BenignWarning(
            cause.code, False, _said_of_earlier(earlier, cause, outlived=outlived), cause.evidence[0].line
        )
        for cause in _diagnose(earlier, None, beside_earlier=False).causes[:1]
    )


def _said_of_earlier(earlier: Sequence[Line], cause: Cause, *, outlived: bool = False) -> str:
    end = earlier[-1].number
    if outlived:
        return f"the run continued behind a failure at line {end}: {cause.cause}"
    return f"an earlier run in this log (up to line {end}) ended otherwise: {cause.cause}"


def _beside_earlier(causes: tuple[Cause, ...], earlier: Sequence[Line]) -> tuple[Cause, ...]:
    """Return the causes with that of the run before in the same log, where it failed otherwise.

    It comes last, but first where the last run only lost a process: what it says is more than nothing.
    """
    before = _diagnose(earlier, None, beside_earlier=False).causes[:1]
    if not before or before[0].slug in {cause.slug for cause in causes}:
        return causes
    row, rows = find_signature(before[0].code), [find_signature(cause.code) for cause in causes]
    found = (replace(before[0], cause=_said_of_earlier(earlier, before[0]), confidence="possible"),)
    lost = all(each is not None and each.depth is CausalDepth.VICTIM for each in rows)
    firm = row is None or row.depth is not CausalDepth.VICTIM
    return (*found, *causes) if lost and firm else (*causes, *found)


def _as_logged(lines: Sequence[Line], course: RunProgress) -> Sequence[Line]:
    """Return the lines, from the exception on where a person quotes one in a sentence."""
    if len(lines) > _MOST_OF_A_SENTENCE:
        return lines
    starts = [
        None if course.has_outlived(line, 1) or course.has_outlived_words(line, ()) else _said_in(lines, line)
        for line in lines
    ]
    if not any(starts):
        return lines
    return [
        replace(line, text=line.text[found.end() :].strip("`'\"* ")) if found else line
        for line, found in zip(lines, starts, strict=True)
    ]


def _said_in(lines: Sequence[Line], line: Line) -> re.Match[str] | None:
    """Return where a line says which exception was raised: not in a warning, or in code behind words."""
    found = None if is_warning_line(line.text) else _IN_A_SENTENCE.search(line.text)
    if found is None or re.search(r"\w", line.text[: found.start()]) is None:
        return found
    glued = line.text.lstrip().startswith("raise ") and not re.search(r"[\"']", line.text[: found.start()])
    return None if is_quoted(lines, line) or (is_shown_text(lines, line) and not glued) else found


def _is_complaint(lines: Sequence[Line], course: RunProgress) -> bool:
    """Whether the text is a few sentences, of which one says that a run failed."""
    return (
        len(lines) <= _MOST_OF_A_SENTENCE
        and not course.advanced
        and any(
            _COMPLAINT.match(line.text) and not (is_harmless(line.text) or is_shown_text(lines, line))
            for line in lines
        )
    )


def _ends_in_traceback(lines: Sequence[Line], course: RunProgress) -> bool:
    """Whether the log is cut within a traceback, whose head may be cut off too."""
    return not course.done and any(is_quoted(lines, line) or _HEADER in line.text for line in lines[-_CUT:])


def _failed(context: Context | None) -> bool:
    return context is not None and any(code != 0 for code in context.exit_codes)


def _from_series(lines: Sequence[Line]) -> list[Candidate]:
    """Return the series that went bad, of all ranks the first."""
    by_rank: dict[object, list[Point]] = {}
    for point in read_points(lines):
        if not _is_code(lines, point):
            by_rank.setdefault(point.line.stream, []).append(point)
    last = max((points[-1].line.order for points in by_rank.values()), default=-1)
    if (lost := find_lost_objective(lines)) and last < lost[0].order:
        said = "what the steps minimize is NaN since this line, and was a number before: a learning rate too high, or bad data"
        return [
            Candidate.shown_by(lost[:1], CausalDepth.ROOT, (NAN_CODE, NAN_LOSS), "likely", (said, _NAN_FIX))
        ]
    bad = [found for points in by_rank.values() if (found := trends.detect_anomalies(points)) is not None]
    if not bad:
        return []
    first = min(bad, key=lambda each: each.points[0].line.order)
    shown = [point.line for point in first.points[:MOST_EVIDENCE]]
    said = f"{first.description}: pure fp16 training, a model made for bf16 in fp16, too high a learning rate, or bad data"
    kind = (first.code, NAN_LOSS)
    return [Candidate.shown_by(shown, CausalDepth.ROOT, kind, first.confidence, (said, _NAN_FIX))]


def _is_code(lines: Sequence[Line], point: Point) -> bool:
    """Whether a NaN or infinite loss is in source code that the log shows."""
    if point.loss is None or math.isfinite(point.loss):
        return False
    return is_quoted(lines, point.line) or is_shown_text(lines, point.line)


def _warnings(lines: Sequence[Line]) -> tuple[BenignWarning, ...]:
    """Return the notices, each once, looked for in one line of each shape."""
    unlike = _one_of_each_shape(lines)
    joined = JoinedLines([line.text for line in unlike])
    found = [(min(places), notice) for notice in NOTICES if (places := joined.list_matches(notice.pattern))]
    return tuple(
        BenignWarning(notice.code, notice.safe, notice.verdict, unlike[place].number)
        for place, notice in sorted(found, key=itemgetter(0))
    )


def _one_of_each_shape(lines: Sequence[Line]) -> Sequence[Line]:
    shapes = zero_numbers("\n".join(line.text for line in lines)).split("\n")
    first: dict[str, Line] = {}
    for line, its_shape in zip(lines, shapes, strict=False):
        first.setdefault(its_shape, line)
    return tuple(first.values())


__all__ = ["BenignWarning", "Cause", "Diagnosis", "Evidence", "diagnose", "diagnose_lines", "diagnose_logs"]
