"""Exceptions that no row's wording names: by where they were raised, or as the user's own. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.candidate import Candidate, make_candidate, place_of
from preflight.diagnosis.exception_advice import ANY_ADVICE, find_advice
from preflight.diagnosis.exception_origins import find_row_of_place, get_lookup_text
from preflight.diagnosis.fix_commands import find_command
from preflight.diagnosis.lines import Line
from preflight.diagnosis.result import USER_CODE, USER_EXCEPTION
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.signature_matcher import SignatureHit, find_first_match, is_harmless
from preflight.diagnosis.signatures.table import CausalDepth, Signature
from preflight.diagnosis.tracebacks import MOST_BELOW, ParsedException, parse_frames, wraps_another
from preflight.diagnosis.warning_lines import is_warning_line

# They only report that a child ended, or that the end was requested.
LAUNCHER_ERRORS = frozenset({
    "ChildFailedError", "CalledProcessError", "SignalException", "SystemExit", "ProcessExitedException",
    "ProcessRaisedException", "ActorUnavailableError", "ActorDiedError", "RayActorError", "WorkerCrashedError", "EngineDeadError", "AsyncEngineDeadError", "MQEngineDeadError", "AlgorithmError", "ExecuteUserScriptError", "UnexpectedStatusException", "TrainingFailedError", "WorkerGroupError", "ControllerError", "TuneError", "CellExecutionError", "PapermillExecutionError", "DeadKernelError",
})  # fmt: skip
_DIED, _KIND = "S97", (USER_CODE, USER_EXCEPTION)
_TYPE_IN_WRAPPER = re.compile(
    r"\bRayTaskError\((?P<ray>\w{1,80})\)|\bCaught (?P<type>\w{1,80}) in (?P<who>(?:DataLoader worker|replica|pin memory thread|train worker)\b)"
)
_TASK = re.compile(r"\bray::([\w.]{1,120}\(\))")
# What native code raises for any failure, and what it says where tensors that the script made are at fault.
_OF_NATIVE_CODE = re.compile(r"\w*RuntimeError|InternalError|UnknownError|SystemError")
_OF_TENSORS = re.compile(
    r"\b[Ss]hapes?\b|\b[Ss]izes\b|\b[Ss]ize of tensor\b|\b[Ss]ize mismatch\b|\b[Ee]xp(?:and|ect)ed size\b|\bdim(?:ension)?s?\b|\bindex\b|\binplace operation\b|\brequires? grad(?:ient)?|\belements? of\b|\bbackward\b.{0,40}\bsecond time\b|\bleaf [Vv]ariable"
)
_SOURCE_ABOVE, _MOST_OF_SOURCE = 4, 2000
_OWN_RAISE = re.compile(r"\s*raise\b")
# Messages that only announce what is below them.
_HEADING = re.compile(
    r"(?::|\bmaking fake tensor call|\broot error\(s\) found\.|\bfollowing (?:error|operation)s?\b.{0,80})\s*$"
)
# How torch.distributed.checkpoint puts the tracebacks of ranks below its own exception.
_OF_RANK = re.compile(r"Traceback \(most recent call last\): \(RANK \d+\)")
_GOT = re.compile(r"\bgot (?P<type>\w{1,80})\((?P<quote>['\"])(?P<message>.{1,600}?)(?P=quote)\)")
_RAY_LOGS = "that worker's own: /tmp/ray/session_latest/logs/worker-*.err on its host"


def find_user_exceptions(
    chains: Sequence[Sequence[ParsedException]], hits: Sequence[SignatureHit], course: RunProgress
) -> list[Candidate]:
    """Return the exceptions that are in no row: the user's own errors, with their places."""
    matched = {hit.line.order for hit in hits}
    found: dict[str, Candidate] = {}
    raised = [each for chain in chains for each in chain]
    died = any(hit.row.code == _DIED and not _TYPE_IN_WRAPPER.search(hit.line.text) for hit in hits)
    for each, name in cut_reports(raised):
        if not died and find_type_row(name) is None:
            found.setdefault(each.text, _of_cut_report(each, name, course))
    for chain in chains:
        members = [each for each in chain if each.name not in LAUNCHER_ERRORS]
        last = max((index for index, each in enumerate(chain) if each.follows == "context"), default=0)
        if not members or any(_is_root(each, matched) for each in chain[:last]):
            continue
        if any(is_known(each, matched) for each in chain[last:] if each.name not in LAUNCHER_ERRORS):
            continue
        root = _innermost(members)
        if is_harmless(root.line.text) or (
            wraps_another(root) and (root.line.order in matched or not root.message)
        ):
            continue
        # The traceback of a signal shows what it interrupted.
        if any(each.name == "SignalException" for each in chain) or (
            root.name == "KeyboardInterrupt" and root.line.order in matched
        ):
            continue
        if is_explained_below(root, matched) or _is_relay(root, raised, matched, course):
            continue
        if root.bare and _is_raised_below(root, raised):
            continue
        row = find_row_of_place(chain, find_source_above(course, root.line))
        made = (
            _of_exception(root, chain, course)
            if row is None
            else make_candidate((row, row.depth, [root.line]), [chain], course, beside=())
        )
        found.setdefault(root.text, made)
    return list(found.values())


def cut_reports(raised: Sequence[ParsedException]) -> Iterator[tuple[ParsedException, str]]:
    """Yield (report, type) of exceptions in another process of which the log shows no more."""
    last = {each.name: each.line.order for each in raised if not wraps_another(each)}
    for each in raised:
        named = _TYPE_IN_WRAPPER.search(each.line.text)
        name = (named["ray"] or named["type"]) if named else ""
        if name and name not in LAUNCHER_ERRORS and last.get(name, -1) <= each.line.order:
            yield each, name


def find_source_above(course: RunProgress, line: Line) -> str:
    """Return the source of an exception's innermost call, which its process prints above the message."""
    above = course.lines[max(0, line.order - _SOURCE_ABOVE) : line.order]
    shown = " ".join(each.text[:_MOST_OF_SOURCE] for each in above if each.stream == line.stream)
    return shown.rpartition('File "')[2]


def find_type_row(name: str) -> Signature | None:
    """Return the row that an exception's type alone names."""
    return find_first_match(f"{name}: ") or find_first_match(f"torch.{name}: ")


def is_explained_below(raised: ParsedException, matched: Collection[int]) -> bool:
    """Whether a row knows a line below an exception's first one, which only announces it."""
    below = range(raised.line.order + 1, raised.line.order + 1 + MOST_BELOW) if raised.below else range(0)
    return _HEADING.search(raised.message) is not None and any(order in matched for order in below)


def _is_raised_below(raised: ParsedException, others: Sequence[ParsedException]) -> bool:
    """Whether a traceback below ends in what a line only says, as a panic of Rust and its exception."""
    return any(
        each.name == raised.name and not each.bare and each.message and each.message in raised.whole
        for each in others
        if each.line.order > raised.line.order
    )


def _is_relay(
    raised: ParsedException, others: Sequence[ParsedException], matched: set[int], course: RunProgress
) -> bool:
    """Whether an exception only carries those of ranks below it, of which a row knows the first."""
    below = raised.line.order + 1
    if below >= len(course.lines) or not _OF_RANK.search(course.lines[below].text):
        return False
    behind = [each for each in others if each.line.order > below and each.line.stream == raised.line.stream]
    return any(is_known(each, matched) for each in behind[:1])


def is_known(raised: ParsedException, matched: set[int] | frozenset[int]) -> bool:
    """Whether a row names an exception itself, and not one that it only reports."""
    return (raised.line.order in matched and not wraps_another(raised)) or _row_of(raised) is not None


def _is_root(raised: ParsedException, matched: set[int] | frozenset[int]) -> bool:
    row = _row_of(raised)
    return is_known(raised, matched) and (row is None or row.depth is CausalDepth.ROOT)


def _row_of(raised: ParsedException) -> Signature | None:
    if wraps_another(raised) or (is_warning_line(raised.text) and raised.bare):
        return None
    return find_first_match(get_lookup_text(raised))


def _innermost(chain: Sequence[ParsedException]) -> ParsedException:
    """Return the exception that began a chain.

    What another process or thread raised follows the one that reports it; of exceptions raised while
    another was handled, the last one ended the run.
    """
    for index, each in enumerate(chain[:-1]):
        if wraps_another(each):
            return chain[index + 1]
    last = len(chain) - 1
    while last > 0 and chain[last].follows == "cause":
        last -= 1
    return chain[last]


def _of_cut_report(raised: ParsedException, name: str, course: RunProgress) -> Candidate:
    """Return the cause that a report of another process's exception names by its type alone."""
    below = replace(raised, frames=parse_frames(course.lines, raised.line.order))
    named, task = _TYPE_IN_WRAPPER.search(raised.line.text), _TASK.search(raised.message)
    who = named["who"] if named else ""
    by = f"a {who}" if who else task[1] if task else "a task of Ray"
    usual = "" if (advice := find_advice(name, "")) == ANY_ADVICE else f"; usually {advice}"
    words = (
        f"{by} raised {name}; what it said is not in this log",
        f"read the message in the whole log{'' if who else f', or in {_RAY_LOGS}'}{usual}",
    )
    shown, location = (raised.line,), place_of([below])
    return Candidate.shown_by(shown, CausalDepth.GENERAL, _KIND, "likely", words, location=location)


def strip_emphasis(text: str) -> str:
    """Return an exception's text without the marks of code, italics or bold that a paste puts around it."""
    for mark in "`*_":
        opened = text.startswith(mark) and text[1:2].isupper()
        if text.endswith(mark) and (opened or (mark != "_" and text.count(mark) % 2)):
            text = text.strip(mark)
    return text


def _of_exception(
    raised: ParsedException, chain: Sequence[ParsedException], course: RunProgress
) -> Candidate:
    got = _GOT.search(raised.below) if _HEADING.search(raised.message) else None
    text = f"{got['type']}: {got['message']}" if got else strip_emphasis(raised.text)
    unsure = raised.bare or wraps_another(raised) or _may_be_native(raised, course)
    found = Candidate.shown_by(
        (raised.line,),
        CausalDepth.GENERAL if unsure else CausalDepth.ROOT,
        _KIND,
        "possible" if unsure else "likely",
        (f"the script raised {text}", find_advice(raised.name, raised.message or raised.below)),
        location=place_of([raised, *chain]),
        command=find_command(USER_CODE, raised.text),
    )
    return replace(found, warning_only=raised.bare or wraps_another(raised))


def _may_be_native(raised: ParsedException, course: RunProgress) -> bool:
    """Whether the exception may be a library's or a driver's, of another cause than the script.

    Native code raises one type for all that fails in it. Of those that no row knew at first sight two thirds
    were the script's, of all other types 19 in 20. A package's class without a message says only its place.
    """
    if "." in raised.type and not raised.message and not raised.below.strip("-= "):
        return True
    if not _OF_NATIVE_CODE.fullmatch(raised.name) or _OF_TENSORS.search(raised.message):
        return False
    above = course.lines[raised.line.order - 1 : raised.line.order]
    own = raised.location is not None and raised.location is raised.frames[-1]
    return not (own and any(_OWN_RAISE.match(line.text) for line in above))
