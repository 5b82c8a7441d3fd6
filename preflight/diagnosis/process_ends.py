"""How the ends of a run's processes hang together: which of them made the others end. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.candidate import CORRUPT, Candidate
from preflight.diagnosis.lines import Line
from preflight.diagnosis.run_starts import FIRST_FAILURE
from preflight.diagnosis.signatures.table import CausalDepth
from preflight.diagnosis.tracebacks import ParsedException

WATCHDOG = "S54"
_FAILED_OR_TIMED_OUT = "Some NCCL operations have failed or timed out"
_REMOTE_ERROR = re.compile(r"ncclRemoteError|remote process exited")
SYSTEM_ERROR = "S55"
_WAITED_FOR_PEER = re.compile(r"(?i:gloo).{0,200}(?:[Tt]ime(?:d )?out|closed by peer|reset by peer)")
_ABORT, _CRASH, _STOPPED, _FAILED_RANK = "S69", "S71", "S73", "S99"
# torch's agent says it of the process that ended first, before it stops the others.
_STOPPED_FIRST = re.compile(r"\bfailed \(exitcode: -15\)")
_STOPPED_ITSELF = re.compile(r"\breceived (?:signal[ =:]+)?SIGTERM\b")
# (code, how a process says that it lost a peer): JAX's then aborts, NCCL's reports an internal error.
_LOST_PEER = {
    _ABORT: re.compile(
        r"heartbeat timeout\. This indicates|missing heartbeats|JAX distributed service|\bCollectiveExecutor::StartAbort UNAVAILABLE|\bCollective ops is aborted by: (?i:connection|socket)"
    ),
    SYSTEM_ERROR: re.compile(r"NCCL WARN .{0,120}(?:Connection closed|Broken pipe|reset by peer)"),
}
# A command of a script that was killed left out what a later command reads.
_LACKS_FILE = "S92"
_COMMAND_KILLED = re.compile(
    r"\S{1,200}: line \d{1,6}: +\d{1,9} (?:Killed|Segmentation fault|Bus error|Aborted)\b"
)
_UNREACHED, _NEVER_JOINED = "S51", "S52"
_STORE_FAILED = re.compile(r"connection to the C10d store has failed|error of type RendezvousConnectionError")
# What torch's agent says where another agent left: it finished, failed or was stopped.
CLOSED = re.compile(r"Rendezvous(?:Closed|GracefulExit)Error|has been closed")
_WAS_CONNECTED = re.compile(r"\b(?:Broken pipe|Connection (?:was )?reset|[Cc]onnection closed)\b")
_KILLED, _CANCELLED = "S70", "S78"
_ENDS_OTHERS = frozenset({_CRASH, "S77", "S95", "S96"})
_KILLS = frozenset({_KILLED, _CRASH, "S72", "S74"})
# Exit codes as containers and supervisors report them: of a process that was killed, or that ended itself.
_STOPPED_BY_OTHERS = {
    _KILLED: re.compile(r"\b(?:code|status)\W{1,3}(?:137|-9)\b|srun: error: \S+: tasks? [\d,-]+: Killed"),
    _CANCELLED: re.compile(r"slurmstepd\S{0,60}: error: \*{3} STEP \S+ ON \S+ CANCELLED AT \S+ \*{3}"),
}
_OWN_EXIT = re.compile(
    r"\bexit(?:ed|s)?(?: with)?[ _](?:code|status)\W{1,3}(?!12[89]|1[3-9]\d|2\d\d)[1-9]\d{0,2}\b|\bMPI_Abort\(|\bMPI_ABORT was invoked",
    re.IGNORECASE,
)
_OTHER_FAILURES = re.compile(r"^\s*Failures:")
_ROOT_KILLED = re.compile(r"exitcode\s*:\s*-(?!15\b)\d")
_ABORTED, _CRASHED = re.compile(r"exitcode\s*:\s*-6\b"), re.compile(r"exitcode\s*:\s*-11\b")


def weigh_peers_end(candidate: Candidate, others: Sequence[Candidate]) -> Candidate:
    """Rank a time-out behind a kill, an abort behind a crash, a stop or an absent node behind a failure."""
    crashed = any(each.cause.code == _CRASH and not each.warning_only for each in others)
    if candidate.cause.code == _ABORT and crashed:
        return replace(candidate, depth=CausalDepth.VICTIM)
    failed = [each.first.order for each in others if each.cause.code == _FAILED_RANK]
    if candidate.cause.code == _STOPPED and failed:
        own = _STOPPED_ITSELF.search(candidate.first.text) and candidate.first.order < min(failed)
        if own or _STOPPED_FIRST.search(candidate.first.text):
            return replace(candidate, depth=CausalDepth.ENDING)
        return replace(candidate, warning_only=True)
    if _stopped_behind(candidate, others):
        return candidate.as_possible(CausalDepth.VICTIM)
    first = candidate.first
    closed = all(CLOSED.search(each.text) for each in candidate.cause.evidence)
    if candidate.cause.code == _NEVER_JOINED and any(
        (each.depth <= CausalDepth.GENERAL and each.first.stream != first.stream)
        or (closed and each.cause.code == _CANCELLED)
        for each in others
        if each.first.order < first.order and not each.warning_only
    ):
        return replace(candidate, depth=CausalDepth.VICTIM)
    if candidate.cause.code == _LACKS_FILE and any(
        _COMMAND_KILLED.match(each.first.text) and each.first.order < first.order for each in others
    ):
        return candidate.as_possible(CausalDepth.VICTIM)
    ends_by = _LOST_PEER.get(candidate.cause.code)
    if ends_by and any(each.cause.code == "S57" and ends_by.search(each.first.text) for each in others):
        return candidate.as_possible(CausalDepth.VICTIM)
    peers_killed = any(each.cause.code in _KILLS and not each.warning_only for each in others)
    if candidate.cause.code == SYSTEM_ERROR and peers_killed:
        gloo = all(_WAITED_FOR_PEER.search(each.text) for each in candidate.cause.evidence)
        return replace(candidate, depth=CausalDepth.VICTIM) if gloo else candidate
    waits = [each.first.order for each in others if each.cause.code == WATCHDOG]
    killed = candidate.cause.code in _KILLS or (
        candidate.cause.code == _ABORT and CORRUPT.search(candidate.first.text)
    )
    if killed and candidate.depth is CausalDepth.ENDING and waits and candidate.first.order < min(waits):
        return replace(candidate, depth=CausalDepth.GENERAL)
    return candidate


def demote_lost_store(candidate: Candidate, chains: Sequence[Sequence[ParsedException]]) -> Candidate:
    """Let torch's agent rank behind others that lost a store it had reached: the agent serving it ended."""
    if candidate.cause.code != _UNREACHED or not all(
        _STORE_FAILED.search(each.text) for each in candidate.cause.evidence
    ):
        return candidate
    failed = [chain for chain in chains if any(_STORE_FAILED.search(each.message) for each in chain)]
    if not any(_WAS_CONNECTED.search(each.message) for chain in failed for each in chain):
        return candidate
    return candidate.as_possible(CausalDepth.VICTIM)


def echoes_lost_peer(candidate: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether a watchdog only repeats that some operation failed, while NCCL reports a peer that was gone."""
    lines = candidate.cause.evidence
    return (
        candidate.cause.code == WATCHDOG
        and all(_FAILED_OR_TIMED_OUT in each.text for each in lines)
        and any(_REMOTE_ERROR.search(each.text) for other in others for each in other.cause.evidence)
    )


def _stopped_behind(stopped: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether a stop follows a process that ended itself, crashed or lacked memory, or the job's end."""
    words = _STOPPED_BY_OTHERS.get(stopped.cause.code)
    before = [each for each in others if each.first.order < stopped.first.order]
    ended = any(
        each.cause.code in _ENDS_OTHERS
        or (each.cause.code == _FAILED_RANK and _OWN_EXIT.search(each.first.text))
        for each in before
    )
    return words is not None and ended and all(words.search(each.text) for each in stopped.cause.evidence)


def list_other_failures(failing: Sequence[Line]) -> frozenset[int]:
    """Return the lines of torch's box that are about failures seen after the first one.

    torch calls the first end that it saw the root cause. gpulaunch believes it where a signal killed that
    process, and not where the process raised an exception because its peer was gone.
    """
    found: set[int] = set()
    inside: range | None = None
    start: int | None = None
    for line in failing:
        if _OTHER_FAILURES.search(line.text):
            start = line.order
        elif FIRST_FAILURE.search(line.text):
            inside = range(start, line.order) if start is not None else None
        elif inside is not None and "exitcode" in line.text:
            found.update(inside if _ROOT_KILLED.search(line.text) else ())
            if _ABORTED.search(line.text):  # as a process does whose peer is gone
                found.difference_update(each.order for each in failing if _CRASHED.search(each.text))
            inside = None
    return frozenset(found)
