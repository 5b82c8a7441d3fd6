"""What the lines of a log accuse, and the order in which that is believed. Pure."""

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.candidate import Candidate, make_candidate
from preflight.diagnosis.cleanup_failures import leave_out_cleanup
from preflight.diagnosis.exception_origins import get_lookup_text, is_of_another_package, override_row
from preflight.diagnosis.exception_shapes import group_chains
from preflight.diagnosis.lines import Line
from preflight.diagnosis.long_messages import find_long_hits
from preflight.diagnosis.process_ends import (
    WATCHDOG,
    demote_lost_store,
    echoes_lost_peer,
    list_other_failures,
    weigh_peers_end,
)
from preflight.diagnosis.quoted_text import is_shown_text
from preflight.diagnosis.repeated_statuses import add_last_errors, refine_assertions, refine_statuses
from preflight.diagnosis.replacements import says_instead
from preflight.diagnosis.result import USER_CODE
from preflight.diagnosis.run_ends import SIDE_PROGRAM, SOME_BEHIND
from preflight.diagnosis.run_progress import FULL_BAR, RunProgress
from preflight.diagnosis.signature_matcher import SignatureHit, find_first_match, is_harmless
from preflight.diagnosis.signatures.files import TAKEN_FOR_A_COMMAND
from preflight.diagnosis.signatures.table import CausalDepth, Signature, find_signature
from preflight.diagnosis.tracebacks import MOST_BELOW, ParsedException, is_quoted, wraps_another
from preflight.diagnosis.user_exceptions import (
    LAUNCHER_ERRORS,
    cut_reports,
    find_source_above,
    find_type_row,
    find_user_exceptions,
    is_known,
)

_SHORT_END = 3
# What programs say of a package, a GPU or a port that they continue without; and that they do not.
_STATED = frozenset({"S27", "S37", "S50", "S89", "S91", "S121"})
_OF_ERROR = re.compile(
    r"(?<!\w)(?:[A-Z]\w*)?(?:[Ee]rror|ERROR|FATAL|[Ff]atal|CRITICAL|Exception)\b|\b(?:[Ff]ailed|FAILED)\b"
)
_TELLS_OF_OTHERS = "TuneError"  # of trials that failed while others of the same Ray made steps
_RAISES = re.compile(r"[\s\d>❱│-]*raise \w")
_CUT = 6  # lines at a log's end among which the `raise` is whose message is lost
_MANY_STEPS = 10  # steps behind a line that show, where nothing failed, that the run outlived it
# Of XLA's rendezvous, and of a participant that does not come to it.
_STUCK, _UNSTUCK = "may be stuck", "Thread is unstuck"
_ABSENT = re.compile(r"\bExecution of replica \d+ failed: ")
_TRIED_AGAIN = frozenset({"rendezvous-timeout", "nccl-network", "ssh-access", "local-server"})
_SSH_FAILED = "S64"
_UNSTARTED = frozenset({"S44", "S110", "S111", "S113"})
_NO_MODULE = re.compile(
    rf"Lmod has detected the following error|.{{0,40}}Unable to locate a modulefile|.{{0,300}}?{SIDE_PROGRAM.pattern}"
)
_GATED, _REFUSED, _NO_GPU, _SOME_STATUS, _ASKED = "S80", "S81", "S37", "S33", "S138"
# Messages of kernels, GPU code and libraries that no exception carries.
_UNCARRIED = re.compile(r"NCCL|NVRM|[Gg]loo|\.cu:\d")
_SSH = re.compile(r"(?:[\w.-]{1,60}: )?ssh: ")
_NCCL_WARNS = re.compile(r"(\S{1,100}:\d+):\d+ \[\d+\] .{0,80}NCCL WARN ")
_NCCL_CONTINUES = re.compile(
    r"(\S{1,100}:\d+):\d+ \[\d+\] .{0,80}NCCL INFO (?:Using network|Connected all|.{0,200}Init COMPLETE)"
)
# A warning, but of a process that continues without the GPU that it was started for.
_NO_CUDA = re.compile(r"CUDA initialization: |NVML: Driver/library version mismatch")
_OF_A_GPU = re.compile(r"\b(?:CUDA|cuda|GPUs?|NVIDIA|compute capability)\b")
# The c10d store writes these also where the script catches the exception, or takes another port.
_SOCKET_LOG = re.compile(r"^\[[EW]\d* ?.{0,60}\bsocket\.(?:cpp|hpp)\b")
_NOTEBOOK_HEAD = re.compile(r"^\w+ {2,}Traceback \(most recent call last\)")


def list_candidates(
    hits: Sequence[SignatureHit], raised: Sequence[ParsedException], course: RunProgress
) -> list[Candidate]:
    """Return everything the log accuses, unordered; nothing when the run plainly continued to its end."""
    last = max((line.order for line in course.failing), default=-1)
    continued = bool(course.failing) and course.has_continued(last)
    raised = [each for each in raised if each.line.order >= course.start and not continued]
    chains = [leave_out_cleanup(chain, course) for chain in group_chains(raised)]
    start = last + 1 if continued else course.start
    hits = refine_assertions([hit for hit in hits if hit.line.order >= start])
    hits = _messages(hits, raised, course)
    hits = _not_continued(_not_overtaken(hits, chains), course)
    told = bool(raised) and raised[-1].name == _TELLS_OF_OTHERS
    dead = [hit for hit in hits if told or not course.has_moved(hit.line.order, last)]
    open_ends = [
        chain
        for chain in chains
        if (told or not course.has_moved(chain[-1].line.order, last))
        and not (chain[0].reported and _was_only_logged(chain[0], course))
        and not (chain[-1].bare and course.has_outlived_words(chain[-1].line, ()))
    ]
    own = [_for_want_of_cuda(each, dead) for each in find_user_exceptions(open_ends, hits, course)]
    found = [
        _for_want_of_cuda(demote_lost_store(make_candidate(each, chains, course, beside=own), chains), dead)
        for each in _by_code(dead, course)
    ]
    if continued or not course.failing:
        waiting = _waiting(found, dead, course)
        found = [
            each
            for each in found
            if _is_failure_alone(each, len(course.lines) - 2)
            and not course.has_continued(each.first.order)
            and not course.has_outlived(each.first, _MANY_STEPS)
            and not _is_only_named(each, course)
        ] or waiting
    anchored = {
        order for each in raised for order in range(each.line.order, each.line.order + MOST_BELOW + 1)
    }
    anchored.update(line.order for line in course.failing if not _SOCKET_LOG.match(line.text))
    shown = {(each.line.source, each.line.number, each.line.text.strip()) for each in raised}
    plain = [
        each
        for each in found
        if not any((at.source, at.line, at.text) in shown for at in each.cause.evidence)
        and not (_SSH.match(each.first.text) and not course.has_made_steps(each.first.order))
    ]
    others = [*found, *own]
    found = [_unanchored(each, others, anchored) if each in plain else each for each in found]
    found = [weigh_peers_end(each, [*found, *own]) for each in found]
    framed, others = {each.line.order for each in raised if not each.bare}, [*found, *own]
    found = [_behind_an_end(each, others, framed) for each in found if not echoes_lost_peer(each, found)]
    if any(each.cause.code == _GATED for each in found):  # its HTTP status is printed first
        found = [replace(each, broad=each.broad or each.cause.code == _REFUSED) for each in found]
    explained = any(
        each.depth <= CausalDepth.GENERAL and not each.warning_only and each.cause.code != WATCHDOG
        for each in found
    )
    return [*found, *(each for each in own if not (explained and each.warning_only))]


def _messages(
    hits: Sequence[SignatureHit], raised: Sequence[ParsedException], course: RunProgress
) -> list[SignatureHit]:
    """Return the hits without those in code that tracebacks show, and with messages that span lines.

    Where a log ends within a traceback, the `raise` that it shows last is all that is left of the message.
    """
    wrapping = {each.line.order for each in raised if wraps_another(each)}
    shown = [
        hit
        for hit in hits
        if not is_quoted(course.lines, hit.line)
        and not is_shown_text(course.lines, hit.line)
        and not _NOTEBOOK_HEAD.match(hit.line.text)
        and not (hit.row.broad and hit.line.order in wrapping)
    ]
    orders = {hit.line.order for hit in hits}
    for each in raised:
        below = range(
            each.line.order, each.line.order + MOST_BELOW + 1 if each.below else each.line.order + 1
        )
        if orders.isdisjoint(below) and not wraps_another(each):
            row = find_first_match(each.whole)
            shown += [SignatureHit(row, each.line)] if row is not None else []
    shown += find_long_hits(raised, shown, course.failing)
    by_order = {each.line.order: each for each in raised}
    shown = [hit for hit in shown if not _is_named_alike(hit, by_order.get(hit.line.order))]
    shown = [
        SignatureHit(
            override_row(hit.row, by_order[hit.line.order], find_source_above(course, hit.line)), hit.line
        )
        if hit.line.order in by_order
        else hit
        for hit in shown
    ]
    shown = add_last_errors(refine_statuses(shown), raised, course.lines)
    shown += _of_wrapped(raised)
    if shown or raised:
        return shown
    last = _cut_raise(course.lines)
    return [
        hit
        for hit in hits
        if (hit.line.order >= last or hit.line.text.lstrip().startswith("raise "))
        and is_quoted(course.lines, hit.line)
    ]


def _is_named_alike(hit: SignatureHit, raised: ParsedException | None) -> bool:
    """Whether a row knows an exception by its class, which another package also has, not by its message."""
    if raised is None or not is_of_another_package(raised):
        return False
    row = find_first_match(get_lookup_text(raised))
    return row is None or row.code != hit.row.code


def _cut_raise(lines: Sequence[Line]) -> int:
    """Return the `order` of the `raise` whose message the log's end cuts off, else one behind all lines."""
    end = lines[-_CUT:]
    found = max((line.order for line in end if _RAISES.match(line.text)), default=sys.maxsize)
    framed = any(line.order > found and line.text.lstrip().startswith('File "') for line in end)
    return sys.maxsize if framed else found


def _of_wrapped(raised: Sequence[ParsedException]) -> list[SignatureHit]:
    """Return the hits of exceptions in other processes of which the log shows the type alone."""
    rows = [(each, find_type_row(name)) for each, name in cut_reports(raised)]
    return [SignatureHit(replace(row, broad=True), each.line) for each, row in rows if row is not None]


def _not_overtaken(
    hits: Sequence[SignatureHit], chains: Sequence[Sequence[ParsedException]]
) -> list[SignatureHit]:
    """Return the hits without general ones on exceptions in whose handling an unknown one ended the run."""
    matched = {hit.line.order for hit in hits}
    overtaken: set[int] = set()
    for chain in chains:
        last = max((index for index, each in enumerate(chain) if each.follows == "context"), default=0)
        end = chain[last:]
        if not any(is_known(each, matched) or each.name in LAUNCHER_ERRORS for each in end):
            overtaken.update(each.line.order for each in chain[:last])
    return [
        hit
        for hit in hits
        if (hit.row.depth is CausalDepth.ROOT and not hit.row.broad) or hit.line.order not in overtaken
    ]


def _not_continued(hits: Sequence[SignatureHit], course: RunProgress) -> list[SignatureHit]:
    """Return the hits without those behind which the run continued, or that have another reason.

    Left out are NCCL's warnings behind which its process continues with the network that it chose; a thread
    that waited in XLA's rendezvous for others that came or had failed; what kept a job from a start that it
    made; a host that the run goes without; what stopped ranks that were done; a parser's arguments that the
    shell took for a command.
    """
    lines = course.lines
    hits = [hit for hit in hits if hit.row.code not in _UNSTARTED or not course.has_stepped(hit.line)]
    hits = [hit for hit in hits if not course.was_stopped_when_done(hit.line)]
    hits = [hit for hit in hits if hit.row.code != _SSH_FAILED or not _has_left_out(hit.line, course)]
    absent = [hit.line.order for hit in hits if _NO_MODULE.match(hit.line.text)]
    if absent and (not course.failing or course.failing[-1].order <= absent[-1]):
        behind = [line.text for line in lines[absent[-1] + 1 :] if line.text.strip()]
        aside = SIDE_PROGRAM.search(lines[absent[-1]].text) is not None and len(behind) >= SOME_BEHIND
        worked = aside or any(map(FULL_BAR.search, behind))  # a program, without it
        hits = [hit for hit in hits if not (worked and hit.line.order in absent)]
    if any(hit.row.code == "S113" and re.search(TAKEN_FOR_A_COMMAND, hit.line.text) for hit in hits):
        hits = [hit for hit in hits if "arguments are required" not in hit.line.text]
    stuck = [hit.line.order for hit in hits if _STUCK in hit.line.text]
    if stuck:
        freed = max((line.order for line in lines if _UNSTUCK in line.text), default=-1)
        if any(_ABSENT.search(line.text) for line in lines[: min(stuck)]):
            freed = max(stuck)
        hits = [hit for hit in hits if hit.line.order > freed or _STUCK not in hit.line.text]
    warned = {hit.line.order: found[1] for hit in hits if (found := _NCCL_WARNS.search(hit.line.text))}
    if not warned:
        return list(hits)
    continued = {
        found[1]: line.order
        for line in lines
        if "NCCL INFO" in line.text and (found := _NCCL_CONTINUES.search(line.text))
    }
    return [hit for hit in hits if continued.get(warned.get(hit.line.order, ""), -1) < hit.line.order]


def _unanchored(candidate: Candidate, others: Sequence[Candidate], anchored: Collection[int]) -> Candidate:
    """Rank what only a plain line says behind what an exception, a launcher or the kernel says of another."""
    if (
        candidate.depth >= CausalDepth.ENDING
        or candidate.first.order in anchored
        or _UNCARRIED.search(candidate.first.text)
    ):
        return candidate
    firm = [
        each
        for each in others
        if each.first.order in anchored
        and not each.warning_only
        and each.cause.code != candidate.cause.code
        and not (each.cause.code == WATCHDOG and "client socket has timed out" in candidate.first.text)
    ]
    soft = candidate.warning_only and not _OF_A_GPU.search(candidate.cause.cause)
    if _SOCKET_LOG.match(candidate.first.text) and any(each.depth < CausalDepth.VICTIM for each in firm):
        depth = CausalDepth.VICTIM
    elif any(
        each.depth is CausalDepth.ROOT or (soft and each.cause.confidence == "likely" and each.cause.location)
        for each in firm
    ):
        depth = CausalDepth.GENERAL
    else:
        return candidate
    return candidate.as_possible(depth, warning_only=True)


def _for_want_of_cuda(candidate: Candidate, hits: Sequence[SignatureHit]) -> Candidate:
    """Let a GPU's error or absence rank behind its process's warning that says why CUDA did not start."""
    cause, first = candidate.cause, candidate.first
    about = cause.code in (_NO_GPU, _SOME_STATUS) or (
        cause.code == USER_CODE and _OF_A_GPU.search(cause.cause)
    )
    if not about or not any(
        hit.line.stream == first.stream
        and hit.line.order < first.order
        and hit.row.code != cause.code
        and _NO_CUDA.search(hit.line.text)
        for hit in hits
    ):
        return candidate
    return candidate.as_possible(CausalDepth.VICTIM)


def _behind_an_end(candidate: Candidate, others: Sequence[Candidate], framed: Collection[int]) -> Candidate:
    """Let a warning rank behind the process's end, and a server that was retried behind later failures."""
    first = candidate.first
    if (
        candidate.cause.code == _ASKED
        and first.order not in framed
        and any(each.cause.confidence != "possible" and each.first.order > first.order for each in others)
    ):
        return candidate.as_possible(CausalDepth.VICTIM, warning_only=True)
    if not candidate.warning_only or candidate.depth is not CausalDepth.ROOT:
        return candidate
    ended = any(each.depth is CausalDepth.ENDING and not each.warning_only for each in others)
    return replace(candidate, depth=CausalDepth.ENDING) if ended else candidate


def _is_only_named(candidate: Candidate, course: RunProgress) -> bool:
    row = find_signature(candidate.cause.code)
    return row is not None and course.has_outlived_words(candidate.first, row.alternatives)


def _was_only_logged(raised: ParsedException, course: RunProgress) -> bool:
    """Whether a program outlived an exception that it logged: no failure follows, and the log continues."""
    order = raised.line.order
    at_end = order >= len(course.lines) - _CUT
    failed = any(line.order > order for line in course.failing)
    return course.has_continued(order) or not (at_end or failed)


def _by_code(
    hits: Iterable[SignatureHit], course: RunProgress
) -> list[tuple[Signature, CausalDepth, list[Line]]]:
    """Return (row, depth, lines) for each row that was hit; a box's other failures count as victims."""
    aside = list_other_failures(course.failing)
    found: dict[tuple[str, CausalDepth], tuple[Signature, CausalDepth, list[Line]]] = {}
    for hit in hits:
        other = hit.line.order in aside and hit.row.depth is CausalDepth.ENDING
        depth = CausalDepth.VICTIM if other else hit.row.depth
        row, _, lines = found.get((hit.row.code, depth), (hit.row, depth, []))
        if hit.line not in lines[-2:]:  # several readings of one line
            lines.append(hit.line)
        found[hit.row.code, depth] = (hit.row if row.broad else row, depth, lines)
    heads = {key for key in found if key[1] is CausalDepth.GENERAL and (key[0], CausalDepth.ROOT) in found}
    rows = [each for key, each in found.items() if key not in heads]  # beside the reason that they announce
    codes = {row.code for row, depth, _ in rows if depth < CausalDepth.VICTIM}
    return [each for each in rows if each[1] is each[0].depth or each[0].code not in codes]


def _waiting(
    found: Sequence[Candidate], hits: Sequence[SignatureHit], course: RunProgress
) -> list[Candidate]:
    """Return what the last lines try again where nothing else shows how the run goes: it may be the cause."""
    ended = len(course.lines) - _SHORT_END
    last = {hit.row.code for hit in hits if hit.line.order >= ended}
    return [
        each.as_possible(each.depth)
        for each in found
        if each.cause.slug in _TRIED_AGAIN
        and each.cause.code in last
        and not course.advanced
        and not is_harmless(each.first.text)
    ]


def _has_left_out(line: Line, course: RunProgress) -> bool:
    """Whether a launcher says below the line of a host that it goes without it, and steps were made."""
    below = course.lines[line.order + 1 : line.order + 2]
    return course.has_made_steps(line.order) and any(says_instead(each.text) for each in below)


def _is_stated(candidate: Candidate, ended: int) -> bool:
    """Whether a program only states what it lacks, in no exception or error, and the log continues behind."""
    said = [at.text for at in candidate.cause.evidence]
    return candidate.first.order < ended - 1 and not any(map(_OF_ERROR.search, said))


def _is_failure_alone(candidate: Candidate, ended: int) -> bool:
    """Whether it counts where nothing else shows a failure; `ended`: where the log's last two lines start."""
    text = candidate.cause.evidence[0].text
    row = find_first_match(text)
    if candidate.warning_only:
        return _NO_CUDA.search(text) is not None
    if candidate.cause.code in _STATED and (says_instead(text) or _is_stated(candidate, ended)):
        return False
    return (
        row is None or row.definitive or (row.depth is CausalDepth.GENERAL and candidate.first.order >= ended)
    )
