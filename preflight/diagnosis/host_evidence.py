"""What is known about a run besides its log, and what that does to a diagnosis. Pure."""

from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.candidate import add_module_advice
from preflight.diagnosis.free_memory import FreeMemory
from preflight.diagnosis.result import SAID_CODE, Cause, Confidence, Evidence
from preflight.diagnosis.signatures.table import CausalDepth, find_signature
from preflight.facts.host import KernelLog
from preflight.facts.xid_table import ADDRESS_FAULT_XIDS, GPU_FAILED_XIDS
from preflight.frozen import dataclass

_GPU_LITTLE_MIB = 1024  # with less free, cuBLAS and cuDNN find no room beside the next tensors
_SHM_LITTLE_MIB, _SHM_MUCH_MIB = 256, 8192
_CUT_FILE = (
    "a bus error, and /dev/shm had room: a file that the process maps (data, a checkpoint, a library) was cut or"
    " written over, or its file system is full or failed"
)
_CUT_FILE_FIX = "df -h on the host; put a new file in place of one in use by mv, never by cp; dmesg -T"
_WANTS_ROOM = re.compile(
    r"NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED|find an engine|to create (?:cudnn|cublas)"
)
"""Errors of CUDA's libraries that lack of memory makes; others are of what they were asked for."""
_SIGNAL_CODES = {1: "S72", 4: "S79", 6: "S69", 7: "S74", 8: "S79", 9: "S70", 11: "S71", 15: "S73"}
_EXPLAINED = {
    9: frozenset({"S77", "S70"}),
    6: frozenset({"S54", "S38", "S40", "S39", "S20", "S123", "S124", "S125"}),
    7: frozenset({"S60"}),
}
"""By signal: the codes that say why a rank ended by it."""
_KILLED_BY_OTHERS = (
    "a process was killed with SIGKILL, and the kernel's count of kills for lack of memory did not rise: a person, a"
    " scheduler or another program did it"
)
_KILLED_FIX = (
    "look for who else has rights on the host: a scheduler's log, kill in a shell history, a watchdog"
)
_KERNEL_KILLED = "S77"  # says what is certain where the kernel has counted the kill of a process of the run
_OWN_GROUP = "the run's control group"
_PID = re.compile(r"\b(?:pid|PID|[Pp]rocess|subprocess)\b\W{0,3}(\d{2,})")
_KILLED_PID = re.compile(r"[Kk]ill(?:ed|ing)? process (\d+)")
_OF_THE_GPU = re.compile(
    r"cuda-|nccl-(?!duplicate|p2p|version)|device-(?!map|mismatch)|driver-|illegal-memory|sigabrt"
)
"""Slugs of what a GPU that failed makes its processes report."""


@dataclass(frozen=True, slots=True)
class Context:
    """Facts about the run. Absent ones are None or empty, and then change nothing.

    `exit_codes`: of ranks that have ended, negative or 128 + N for a signal; `room`: memory that was free
    then; `lost_gpus`: what the driver says of GPUs that it lost; `own_modules`: what the user's own directory
    holds; `early_end`: which ranks had ended well when another lost its peer.
    """

    kernel_logs: tuple[KernelLog, ...] = ()
    exit_codes: tuple[int, ...] = ()
    room: FreeMemory | None = None
    lost_gpus: tuple[str, ...] = ()
    own_modules: frozenset[str] = frozenset()
    early_end: str = ""

    @property
    def exit_signals(self) -> tuple[int, ...]:
        """The signals that ended ranks, each once."""
        codes = (128 - code if 128 < code < 160 else code for code in self.exit_codes)
        return tuple(sorted({-code for code in codes if code < 0}))


def apply_context(causes: tuple[Cause, ...], context: Context) -> tuple[Cause, ...]:
    """Return the causes as the context makes them, more or less certain; those of the log keep order."""
    killed = [cause for cause in causes if cause.code == "S70" and _oom_kills(context)]
    ordered = [cause for cause in causes if cause not in killed]
    for each in (*killed, *_added(causes, context)):
        rank, gpu_failed = _rank(each, context), each.code == "S40"
        behind = (
            place
            for place, other in enumerate(ordered)
            if _rank(other, context) > rank or (gpu_failed and _OF_THE_GPU.match(other.slug))
        )
        ordered.insert(next(behind, len(ordered)), each)
    return tuple(_weighed(cause, context) for cause in ordered)


def _rank(cause: Cause, context: Context) -> int:
    """Return the rank of a cause among which one that the context adds is put."""
    if cause.code == SAID_CODE:  # how a rank ended says more
        return CausalDepth.VICTIM
    row = find_signature(cause.code)
    killed = cause.code == "S70" and _oom_kills(context)
    return CausalDepth.ROOT if row is None or killed else row.depth


def _added(causes: tuple[Cause, ...], context: Context) -> list[Cause]:
    codes = {cause.code for cause in causes}
    found = [
        _made(_SIGNAL_CODES[number], "likely", [f"a process of the run ended by signal {number}"])
        for number in context.exit_signals
        if _SIGNAL_CODES.get(number) and not codes & {_SIGNAL_CODES[number], *_EXPLAINED.get(number, ())}
    ]
    xids = [xid for log in context.kernel_logs for xid in log.xids if xid.code in GPU_FAILED_XIDS]
    broken = [*context.lost_gpus, *(xid.text for xid in xids)]
    if context.early_end and "S25" not in codes:
        found.append(_made("S25", "likely", [context.early_end]))
    if broken and "S40" not in codes and any(_OF_THE_GPU.match(cause.slug) for cause in causes):
        found.insert(0, _made("S40", "likely", broken))
    return found


def _made(code: str, confidence: Confidence, texts: list[str]) -> Cause:
    row = find_signature(code)
    if row is None:
        raise LookupError(code)
    evidence = tuple(
        Evidence(0, None, text, "kernel log" if code in ("S40", "S77") else "exit") for text in texts[:5]
    )
    return Cause(row.code, row.slug, confidence, row.cause, row.fix, evidence)


def _weighed(cause: Cause, context: Context) -> Cause:
    kills = _oom_kills(context)
    if cause.code == "S70" and kills:
        lines = tuple(Evidence(0, None, text, "kernel log") for text in kills[:3])
        if not any(_of_the_run(text, cause) for text in kills):
            return replace(cause, confidence="likely", evidence=(*cause.evidence, *lines))
        return _reworded(cause, _KERNEL_KILLED, "certain", (*lines, *cause.evidence))
    if cause.code == "S70" and context.kernel_logs:
        return replace(
            cause,
            slug="terminated",
            confidence="possible",
            cause=_KILLED_BY_OTHERS,
            fix=_KILLED_FIX,
            command="",
        )
    if cause.code == "S89" and context.own_modules:
        return add_module_advice(cause, (), context.own_modules) if _names_own(cause, context) else cause
    xids = {xid.code for log in context.kernel_logs for xid in log.xids}
    if cause.code == "S38" and not xids.isdisjoint(ADDRESS_FAULT_XIDS):
        return replace(cause, confidence="certain")
    return cause if context.room is None else _weighed_by_room(cause, context.room)


def _weighed_by_room(cause: Cause, room: FreeMemory) -> Cause:
    """Return a cause that little free memory explains with what was free; others as they are."""
    gpu, shm, when = room.gpu_free_mib, room.shm_free_mib, f"MiB free {room.age_s:.0f} s before"
    if cause.code == "S74" and shm is not None and not _SHM_LITTLE_MIB <= shm < _SHM_MUCH_MIB:
        said = Evidence(0, None, f"shared memory (/dev/shm) had {shm:.0f} {when}", "gauge")
        known = replace(cause, confidence="certain", evidence=(*cause.evidence, said))
        other = replace(known, confidence="possible", cause=_CUT_FILE, fix=_CUT_FILE_FIX, command="")
        return known if shm < _SHM_LITTLE_MIB else other
    wants = cause.code == "S22" and any(_WANTS_ROOM.search(each.text) for each in cause.evidence)
    if not wants or gpu is None or gpu >= _GPU_LITTLE_MIB:
        return cause
    said = Evidence(0, None, f"the rank's GPU had {gpu:.0f} {when}", "gauge")
    return _reworded(cause, "S20", "likely", (*cause.evidence, said))


def _reworded(cause: Cause, code: str, confidence: Confidence, evidence: tuple[Evidence, ...]) -> Cause:
    """Return a cause in the words of another signature, which measurements have shown to be behind it."""
    row = _made(code, confidence, [])
    known = replace(cause, slug=row.slug, confidence=confidence, cause=row.cause, fix=row.fix)
    return replace(known, evidence=evidence, command="")


def _of_the_run(kill: str, cause: Cause) -> bool:
    """Whether a kill is one of the run: of its control group, or of a process that the log names."""
    pids = {pid for each in cause.evidence for pid in _PID.findall(each.text)}
    return _OWN_GROUP in kill or not pids.isdisjoint(_KILLED_PID.findall(kill))


def _names_own(cause: Cause, context: Context) -> bool:
    named = [f"No module named '{name}{end}" for name in context.own_modules for end in ("'", ".")]
    return any(words in each.text for each in cause.evidence for words in named)


def _oom_kills(context: Context) -> list[str]:
    return [text for log in context.kernel_logs for text in log.oom_kills]
