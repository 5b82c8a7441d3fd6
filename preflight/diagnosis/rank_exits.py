"""Ranks that ended by themselves, without an exception, while others lost their peer. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.candidate import Candidate
from preflight.diagnosis.lines import Line
from preflight.diagnosis.process_ends import WATCHDOG
from preflight.diagnosis.result import USER_CODE, USER_EXCEPTION
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.run_starts import FIRST_FAILURE
from preflight.diagnosis.signatures.table import CausalDepth, find_signature
from preflight.diagnosis.tracebacks import ParsedException
from preflight.diagnosis.user_exceptions import LAUNCHER_ERRORS
from preflight.frozen import dataclass

_RANK = re.compile(r"^\s*rank\s+: (\d{1,6}) \(local_rank: \d+\)")
_CODE = re.compile(r"^\s*exitcode\s*: (-?\d{1,3}) ")
_HOST_TABLE = re.compile(r"^Failures:")
_MOST_EXIT_CODE = 127  # greater codes are what a shell makes of a signal
_ON_THIS_HOST = re.compile(r"by peer \[(?:127\.[\d.]{5,11}|::1)\]")
_RAN = "CalledProcessError"
_STARTS_RANKS = re.compile(
    r"\b(?:torchrun|accelerate|deepspeed|torch\.distributed|srun|mpirun|python[\d.]*)\b"
)
_STOPS = "closing signal"
_LOST_PEER = "S57"
_ENDED_EARLY = "S25"


@dataclass(frozen=True, slots=True)
class ReportedExit:
    """A row of torch's table of failed ranks. `root`: the table calls it the first."""

    rank: int
    code: int
    line: Line
    root: bool


def _table(lines: Sequence[Line], start: int) -> Iterator[ReportedExit]:
    """Yield the ranks in torch's table of failures below a line."""
    root, rank = False, None
    for line in lines[start + 1 :]:
        if _HOST_TABLE.match(line.text):
            return
        root = root or FIRST_FAILURE.search(line.text) is not None
        rank_row, code_row = _RANK.match(line.text), _CODE.match(line.text)
        if rank_row:
            rank = int(rank_row[1])
        elif code_row and rank is not None:
            yield ReportedExit(rank, int(code_row[1]), line, root)
            if root:
                return


def exit_candidates(
    lines: Sequence[Line], raised: Sequence[ParsedException], found: Sequence[Candidate], course: RunProgress
) -> list[Candidate]:
    """Return the ranks that made others fail without a word: by an exit of their own, or by ending early.

    Nothing where another candidate says more than that a process ended or lost its peer.
    """
    sure = [each for each in found if not each.warning_only and each.cause.code != WATCHDOG]
    if any(each.depth <= CausalDepth.GENERAL for each in sure):
        return []
    tables = (line.order for line in course.failing if _HOST_TABLE.match(line.text))
    exits = [each for start in tables for each in _table(lines, start)]
    ends = any(each.depth is CausalDepth.ENDING for each in sure)  # by a signal, whatever was caught before
    own = (None if ends else _own_command(raised, course)) or _own_exit(exits, raised)
    said = own or _ended_early(lines, exits, found, course)
    return [said] if said is not None else []


def _own_command(raised: Sequence[ParsedException], course: RunProgress) -> Candidate | None:
    """Return the first failed command that the script itself ran; a launcher's is a rank of the run."""
    own = (each for each in raised if each.name == _RAN and each.place and each.line.order >= course.start)
    ran = next((each for each in own if not course.has_continued(each.line.order)), None)
    if ran is None or _STARTS_RANKS.search(ran.message):
        return None
    said = f"a command that the script ran failed: {ran.message}"
    words, kind = (said, "read what it printed above, and run it by hand"), (USER_CODE, USER_EXCEPTION)
    return Candidate.shown_by([ran.line], CausalDepth.ENDING, kind, "likely", words, location=ran.place)


def _own_exit(exits: Sequence[ReportedExit], raised: Sequence[ParsedException]) -> Candidate | None:
    """Return the first failed rank where it raised nothing: the script, or a library, called sys.exit."""
    root = next((each for each in exits if each.root), None)
    ranks = {each.line.rank for each in raised if each.name not in LAUNCHER_ERRORS}
    if root is None or not 0 < root.code <= _MOST_EXIT_CODE or ranks & {None, root.rank}:
        return None
    certain = bool(ranks) or root.code > 1  # others' tracebacks were kept, so its own would have been
    depth = CausalDepth.ENDING if certain else CausalDepth.VICTIM
    unseen = "" if certain else ", or its output is not in this log"
    words = (
        f"rank {root.rank} ended with exit code {root.code}, and no exception of it is shown: sys.exit or os._exit in the script{unseen}",
        f"find the exit with code {root.code} in the script; what rank {root.rank} printed last says why",
    )
    kind = (USER_CODE, USER_EXCEPTION)
    found = Candidate.shown_by([root.line], depth, kind, "likely" if certain else "possible", words)
    return replace(found, cause=replace(found.cause, rank=root.rank))


def _ended_early(
    lines: Sequence[Line], exits: Sequence[ReportedExit], found: Sequence[Candidate], course: RunProgress
) -> Candidate | None:
    """Return the rank that said it was done before others, which then lost it or waited for it in vain."""
    waits = [each for each in found if each.cause.code in (_LOST_PEER, WATCHDOG) and not each.warning_only]
    row = find_signature(_ENDED_EARLY)
    if not waits or row is None or any(each.code < 0 and each.root for each in exits):
        return None
    first = min(waits, key=lambda each: each.first.order)
    failed = {each.rank for each in exits} | {each.first.rank for each in waits}
    done = [lines[order] for order in course.done if order < first.first.order]
    done = [line for line in done if line.rank is None or line.rank not in failed]
    if first.cause.code == WATCHDOG:
        done = [line for line in done if line.rank is not None and first.first.rank is not None]
    last = done[-1] if done else _row_of_peer_that_left(lines, exits, first.first)
    if last is None:
        return None
    shown, kind, words = (last, first.first), (row.code, row.slug), (row.cause, row.fix)
    location = first.cause.location
    return Candidate.shown_by(shown, CausalDepth.GENERAL, kind, "likely", words, location=location)


def _row_of_peer_that_left(lines: Sequence[Line], exits: Sequence[ReportedExit], lost: Line) -> Line | None:
    """Return the only row of torch's table where it is of the rank that lost a peer on its own host.

    torch's agent lists every process that failed and names every one that it stops. A peer at a loopback
    address was a process of the same agent, so one that is neither listed nor stopped ended with exit code 0.
    """
    if len(exits) != 1 or not _ON_THIS_HOST.search(lost.text) or lost.rank not in (exits[0].rank, None):
        return None
    return None if any(_STOPS in line.text for line in lines) else exits[0].line
