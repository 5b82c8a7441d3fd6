"""What in a log contradicts a cause that is called certain: then it is only likely. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from preflight import regex as re
from preflight.diagnosis.candidate import Candidate
from preflight.diagnosis.lines import Line
from preflight.diagnosis.process_ends import CLOSED
from preflight.diagnosis.report_leads import RESULT, is_only_name, is_report, says_ended
from preflight.diagnosis.result import USER_CODE
from preflight.diagnosis.run_ends import TESTS_PASSED
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.signature_matcher import find_first_match
from preflight.diagnosis.signatures.table import CausalDepth, find_signature
from preflight.diagnosis.step_counters import FEWEST_STEPS, names_step, parse_steps
from preflight.diagnosis.tracebacks import IN_THREAD, MOST_BELOW, ParsedException, is_quoted
from preflight.diagnosis.warning_lines import IS_EXCEPTION, is_warning_line
from preflight.facts.xid_table import GPU_FAILED_XIDS, build_xid_pattern

_ENDED_WELL = re.compile(
    r"\b(?:exit(?:ed)?|return(?:ed)?|finished)(?:[ _]with)?(?:[ _](?:code|status))?[ :=]+0(?![\d.])(?!:[1-9])|\breturncode[ :=]+0\b"
)
_ALSO_OF_OTHERS = {
    # What a host says of its network is what it says where the peer's process has died.
    "S67": re.compile(
        r"ibv_reg_\w*mr\w* failed .{0,40}Cannot allocate memory|Got completion|CQE with error|[Rr]etry (?:count(?:er)? )?exceeded|RETRY_EXC|Connection (?:refused|timed out|reset)|Connect timeout"
    ),
    "S52": CLOSED,
    # timeout's status, and that of xargs whose command ended with 255.
    "S95": re.compile(r"\b124$"),
    # The c10d store also tries further addresses, and the script may catch what it raises.
    "S50": re.compile(r"^(?:\[[EW]\d* ?.{0,60}\bsocket\.(?:cpp|hpp)\b|INFO\b)"),
    # Xids that do not say that the GPU failed.
    "S40": re.compile(rf"NVRM: Xid (?!.{{0,60}}: {build_xid_pattern(GPU_FAILED_XIDS)})"),
    # CUDA, not torch's allocator: NCCL says so of any allocation, page-locked host memory is CUDA's, too,
    # and a library that cannot allocate may be the first to meet what a kernel broke.
    "S20": re.compile(
        r"CU(?:BLAS|SOLVER|DNN)_STATUS_ALLOC_FAILED|CUDA (?:driver )?error: out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|Failed to CUDA calloc"
    ),
    # The supervisor's note: the disk was full when the rank ended, of whatever; torch: a write without errno.
    "S76": re.compile(
        r"^gpulaunch: this log lacks what the rank printed last|PytorchStreamWriter failed writing|unexpected pos \d+ vs \d+|iostream error"
    ),
}
_TURNS = 10  # that a process made behind a failure before a scheduler ended the job
_STEPS_NEAR = 200  # lines above a failure and behind it among which steps are compared
_FEW = 3  # lines of a process that may be behind its failure, in a buffer or from another thread
# What belongs to a message, counts, or is printed by a tool behind any end.
_BESIDE_AN_END = re.compile(r"\W|wandb|.*\d|$")
_END = 6  # lines at a log's end in which an exit code is the run's
# What a program, a builder or a check says last that came to its end, not what one saves because it failed.
_OUTCOME = re.compile(
    r"(?!.*(?i:emergency|crash|dump|snapshot|partial|\blogs?\b))(?:.{0,60}\b(?:[Ww]rote|written|saved|exported|rendered|uploaded)|[Ss]uccessfully \w+ed)\b.{0,80}[\w/]\.?$|.{0,60}\b\d+ \w+ (?:ok|OK|passed)$"
)


def doubt_causes(
    found: Sequence[Candidate], raised: Sequence[ParsedException], course: RunProgress
) -> list[Candidate]:
    """Return the candidates, less certain where the log contradicts them.

    Others or the run's end may contradict one; or its process outlived it, or it says too little. What a
    thread raised long before the run's end ranks behind what ended it.
    """
    ended_well = not course.has_launcher_failed() and any(
        _ENDED_WELL.search(line.text) or (line.order in course.done and TESTS_PASSED.match(line.text))
        for line in course.lines[-_END:]
    )
    ended_well |= any(map(course.has_outlived, course.failing[-1:]))
    outlived = _raised_before_others(found, raised)
    framed = {each.line.order for each in raised if not each.bare}
    stopped = any(course.ends_job(line.order) for line in course.failing[-1:])
    found = [each.as_possible(each.depth) if _may_be_shown(each, course) else each for each in found]
    doubted = [
        replace(_as_likely(each), depth=max(each.depth, CausalDepth.GENERAL))
        if IN_THREAD in course.heading(each.first)
        and course.has_turned(each.first, _TURNS, len(course.lines), alike=True)
        else _as_likely(each)
        if ended_well
        or each.first.order in outlived
        or course.has_outlived(each.first)
        or (stopped and course.has_turned(each.first, _TURNS, len(course.lines), alike=True))
        or (course.was_done(each.first) and course.was_caught(each.first))
        or _says_too_little(each)
        or _is_thrown_behind(each, raised, course)
        or _began_anew(each.first, course)
        or not _is_proven(each, framed, course)
        else each
        for each in found
    ]
    certain: dict[object, set[str]] = {}
    for each in doubted:
        if each.cause.confidence == "certain":
            certain.setdefault(each.first.stream, set()).add(each.cause.slug)
    # Which of two causes that one process names came of the other, its lines do not say.
    return [
        _as_likely(each) if certain.get(each.first.stream, set()) - {each.cause.slug} else each
        for each in doubted
    ]


def _as_likely(candidate: Candidate) -> Candidate:
    """Return a candidate, of which a certain cause is only likely."""
    if candidate.cause.confidence != "certain":
        return candidate
    return replace(candidate, cause=replace(candidate.cause, confidence="likely"))


def _may_be_shown(candidate: Candidate, course: RunProgress) -> bool:
    """Whether a cause may be data or handled: no process ended by it, and its own printed an outcome last."""
    row, first = find_signature(candidate.cause.code), candidate.first
    words = row.alternatives if row is not None else ()
    ended = course.ends_script(first) or course.heading(first).startswith("Process ")
    if ended or course.has_launcher_failed(first.order + 1) or says_ended(first.text, words):
        return False
    if not (IS_EXCEPTION.match(first.text) or is_only_name(first.text, words)):
        return False
    behind = islice(reversed(course.lines), len(course.lines) - first.order - 1)
    last = next((line.text for line in behind if line.stream == first.stream and line.text), "")
    return bool(_OUTCOME.match(last) or (RESULT.match(last) and not names_step(last)))


def _began_anew(first: Line, course: RunProgress) -> bool:
    """Whether a done run counts steps anew behind a failure: restarted, or another rank outlived it."""
    if course.has_launcher_failed() or max(course.done, default=-1) < first.order:
        return False
    near = parse_steps(course.lines[max(0, first.order - _STEPS_NEAR) : first.order + _STEPS_NEAR])
    above = {each.head: each.value for each in near if each.order < first.order}
    behind = [each for each in near if each.order > first.order]
    anew = any(each.value < above.get(each.head, 0) for each in behind)
    return anew or (not above and len(behind) >= FEWEST_STEPS)


def _is_proven(candidate: Candidate, framed: set[int], course: RunProgress) -> bool:
    """Whether a certain cause is reported (by an exception's lines or its own), with only ends behind it."""
    row, first = find_signature(candidate.cause.code), candidate.first
    if candidate.cause.confidence != "certain" or row is None:
        return True
    raised = not framed.isdisjoint(range(first.order - MOST_BELOW, first.order + 1))
    last = max(first.order + MOST_BELOW * raised, course.failing[-1].order if course.failing else -1)
    behind = (
        line
        for line in course.lines[last + 1 :]
        if line.stream == first.stream and not _BESIDE_AN_END.match(line.text)
    )
    alone = not framed and IS_EXCEPTION.match(first.text)
    few = 0 if alone or all(map(course.was_caught, (first, *course.failing[-1:]))) else _FEW
    if not course.ends_job(first.order) and len(list(islice(filter(_is_plain, behind), few + 1))) > few:
        return False
    if raised or is_quoted(course.lines, first):  # all that a log has which ends within a traceback
        return True
    texts = [each.text for each in course.lines[-3:] if each.stream == first.stream]  # may lack its message
    cut = any(", in " in text for text in texts) and is_quoted(course.lines, course.lines[-1])
    return not cut and any(is_report(each.text, row.alternatives) for each in candidate.cause.evidence)


def _is_plain(line: Line) -> bool:
    """Whether a line neither warns nor names a failure."""
    return not is_warning_line(line.text) and find_first_match(line.text) is None


def _says_too_little(candidate: Candidate) -> bool:
    """Whether all that accuses is also printed where the cause is another one."""
    words = _ALSO_OF_OTHERS.get(candidate.cause.code)
    return words is not None and all(words.search(each.text) for each in candidate.cause.evidence)


def _is_thrown_behind(candidate: Candidate, raised: Sequence[ParsedException], course: RunProgress) -> bool:
    """Whether only native code threw it, behind an exception of its process and no steps: as it ended."""
    first = candidate.first
    thrown = all(each.text.startswith("what():") for each in candidate.cause.evidence)
    return thrown and any(
        each.line.stream == first.stream
        and each.line.order < first.order
        and not (each.bare or course.has_turned(each.line, FEWEST_STEPS, first.order, alike=False))
        for each in raised
    )


def _raised_before_others(found: Sequence[Candidate], raised: Sequence[ParsedException]) -> frozenset[int]:
    """Return the places of exceptions that their process outlived: it raised one of another kind later.

    Causes of other ranks are independent, and what a thread raised shows nothing of its process.
    """
    chains = {each.line.order: each.chain for each in raised if not each.bare}
    firm = [
        each
        for each in found
        if each.first.order in chains and (each.cause.confidence == "certain" or each.cause.code == USER_CODE)
    ]
    outlived: set[int] = set()
    later: dict[object, Counter[tuple[int | None, str | None]]] = {}
    for each in sorted(firm, key=lambda one: one.first.order, reverse=True):
        chain, slug = chains[each.first.order], each.cause.slug
        seen = later.setdefault(each.first.stream, Counter())
        if seen[None, None] - seen[chain, None] - seen[None, slug] + seen[chain, slug] > 0:
            outlived.add(each.first.order)
        seen.update([(None, None), (chain, None), (None, slug), (chain, slug)])
    return frozenset(outlived)
