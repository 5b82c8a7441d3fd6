"""Why a run died: what the last lines of the failing rank and its launcher say, or stacks of a hung run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.exit_codes import ExitCode
from launcher.follow.failures import Failure
from launcher.follow.outcome import Outcome
from launcher.follow.suggested_commands import list_places, with_run_commands
from launcher.rundir.log_store import LogStore
from launcher.safe_json import read_mapping, read_number
from launcher.text import one_line, sanitize
from preflight.diagnosis.free_memory import FreeMemory
from preflight.diagnosis.result import BENIGN, UNKNOWN, Diagnosis

if TYPE_CHECKING:
    from preflight.diagnosis.host_evidence import Context
    from preflight.diagnosis.lines import Log
    from preflight.diagnosis.stack_analysis import Hang

SHOWN_LINES = 20
READ_BYTES = 1 << 20  # of the end of a log of stacks: `gpulaunch stacks` may have had others written before
_SHOWN_FRAMES = 20


def add_last_lines(outcome: Outcome, book: LogStore) -> Outcome:
    """Return the outcome with what the log of the root cause ended with, where no exception has it."""
    cause = outcome.cause.failure
    if cause is None or cause.last_lines or cause.hung:  # a hung one's end with our own SIGTERM
        return outcome
    log = "launcher.log" if cause.rank is None else f"rank-{cause.rank}.log"
    lines = book.last_lines(cause.host, log, SHOWN_LINES)
    return replace(outcome, cause=replace(outcome.cause, failure=replace(cause, last_lines=lines)))


def add_diagnosis(outcome: Outcome, book: LogStore) -> Outcome:
    """Return the outcome with a diagnosis where a rank or a launcher failed; logs are read from memory."""
    cause = outcome.cause.failure
    if cause is None or cause.hung:  # its logs end with our own SIGTERM; its stacks say more
        return outcome
    from preflight.diagnosis.diagnose import diagnose_logs  # noqa: PLC0415 - only a failure needs what is behind it
    from preflight.diagnosis.lines import KeptLine, Log  # noqa: PLC0415

    names = ["launcher.log"] if cause.rank is None else [f"rank-{cause.rank}.log", "launcher.log"]
    logs = []
    for name in names:
        first, end = book.read_numbered_end(cause.host, name)
        kept = tuple(KeptLine(first and first + at, line) for at, line in enumerate(end.split("\n")))
        rank = None if name == "launcher.log" else cause.rank
        logs += [Log("", f"{cause.host}/{name}", rank, cause.host, kept)] if end.strip() else []
    found = diagnose_logs((*logs, *_unwritten(cause, logs)), _context(cause))
    return replace(
        outcome,
        cause=replace(
            outcome.cause,
            diagnosis=with_run_commands(found, list_places(outcome.plan.nodes, outcome.run_dirs)),
        ),
    )


def add_stacks(outcome: Outcome, book: LogStore) -> Outcome:
    """Return the outcome with where the ranks stood; its root cause then names the rank that stood apart."""
    cause = outcome.cause.failure
    if cause is None or not cause.hung:
        return outcome
    hang = _read_hang(outcome, book)
    apart = [stack for stack in hang.stacks if stack.rank in hang.outliers]
    found = replace(cause, summary=f"{cause.summary}; {hang.summary}".removesuffix("; "))
    if len(apart) == 1:
        (one,) = apart
        own = one.own
        found = replace(
            found,
            host=one.host,
            rank=one.rank,
            location=f"{own.file}:{own.line}" if own else "",
            last_lines=tuple(frame.description for frame in one.frames[:_SHOWN_FRAMES]),
        )
    return replace(outcome, why=found.summary, cause=replace(outcome.cause, failure=found, hang=hang))


def _read_hang(outcome: Outcome, book: LogStore) -> "Hang":
    from preflight.diagnosis.stack_analysis import find_outliers, read_stacks  # noqa: PLC0415 - only for a hang

    stacks = []
    for end in outcome.ranks:
        path = book.path(end.host, f"stacks-rank-{end.rank}.log")
        if not path.is_file():
            continue
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ_BYTES))
            stack = read_stacks(sanitize(file.read(READ_BYTES).decode(errors="replace")), end.host)
        if stack is not None and stack.rank == end.rank:
            stacks.append(stack)
    return find_outliers(stacks, outcome.plan.world_size)


def read_kept_failure(outcome: Mapping[str, Any]) -> Failure | None:
    """Return what failed first by a kept, untrusted `outcome.json`; None where that is not known."""
    kept = read_mapping(outcome.get("root_cause"))
    host, rank, code = kept.get("host"), kept.get("rank"), kept.get("code")
    if not isinstance(host, str) or not all(value is None or type(value) is int for value in (rank, code)):
        return None
    lines = kept.get("last_lines")
    return Failure(
        host,
        0.0,
        rank,
        code,
        one_line(str(kept.get("summary") or ""), 2000),
        one_line(str(kept.get("location") or ""), 500),
        tuple(one_line(str(line), 300) for line in lines[:SHOWN_LINES]) if isinstance(lines, list) else (),
        hung=outcome.get("hang") is not None or outcome.get("exit_code") == ExitCode.HUNG,
        kernel_oom=one_line(str(kept.get("kernel_oom") or ""), 500),
        oom_counted=kept.get("oom_counted") is True,
        early_end=one_line(str(kept.get("early_end") or ""), 500),
        room=_read_room(kept.get("room")),
    )


def _read_room(kept: object) -> FreeMemory | None:
    numbers = {key: read_number(read_mapping(kept).get(key)) for key in ("gpu_free_mib", "shm_free_mib")}
    age_s = read_number(read_mapping(kept).get("age_s"))
    return None if age_s is None else FreeMemory(age_s, **numbers)


def diagnose_kept_run(logs: "Sequence[Log]", failure: Failure | None) -> Diagnosis:
    """Return a diagnosis of all logs of a run, in which the causes of its first failure come first.

    A rank that dies without a word is the cause; what its peers then say of it is longer, and an effect.
    """
    from preflight.diagnosis.diagnose import diagnose_logs  # noqa: PLC0415 - as above
    from preflight.diagnosis.host_evidence import Context  # noqa: PLC0415 - as above

    everything = diagnose_logs(logs, Context(own_modules=list_own_modules(Path.cwd())))
    if failure is None:
        return everything
    if failure.hung:
        return _without_own_end(everything)
    names = {f"{failure.host}/{name}" for name in (f"rank-{failure.rank}.log", "launcher.log")}
    own = [log for log in logs if log.name in names]
    first = diagnose_logs([*own, *_unwritten(failure, own)], _context(failure))
    if not first.causes or first.verdict == UNKNOWN:
        return everything
    codes = {cause.code for cause in first.causes}
    others = (*first.causes[1:], *(cause for cause in everything.causes if cause.code not in codes))
    # What says no cause adds nothing to one that is known.
    known = tuple(cause for cause in others if cause.slug != UNKNOWN)
    return replace(everything, verdict=first.verdict, causes=(first.causes[0], *known))


def _unwritten(failure: Failure, logs: "Sequence[Log]") -> "tuple[Log, ...]":
    """Return the reported exception of a rank as a log, where its own lacks it: the disk was full."""
    from preflight.diagnosis.lines import Log  # noqa: PLC0415 - as above

    last = next((line.strip() for line in reversed(failure.last_lines) if line.strip()), "")
    written = (text for log in logs for text in (log.text, *(line.text for line in log.kept)))
    if not last or any(last in text for text in written):
        return ()
    name = f"{failure.host}/rank-{failure.rank} exception"
    return (Log("\n".join(failure.last_lines), name, failure.rank, failure.host),)


def _without_own_end(found: Diagnosis) -> Diagnosis:
    """Return a diagnosis without what our own SIGTERM made the logs of a hung run end with."""
    from preflight.diagnosis.signatures.table import CausalDepth, find_signature  # noqa: PLC0415 - as above

    rows = ((cause, find_signature(cause.code)) for cause in found.causes if cause.slug != UNKNOWN)
    causes = tuple(cause for cause, row in rows if row is None or row.depth <= CausalDepth.GENERAL)
    verdict = causes[0].slug if causes else BENIGN if found.verdict == BENIGN else UNKNOWN
    return replace(found, verdict=verdict, causes=causes)


def _context(failure: Failure) -> "Context":
    """Return what is known of a failure besides its logs."""
    from preflight.diagnosis.host_evidence import Context  # noqa: PLC0415 - as above
    from preflight.facts.host import KernelLog  # noqa: PLC0415 - as above

    # What supervisors count is in the kernel's log too, which an ordinary user may often not read.
    kills = (failure.kernel_oom,) if failure.kernel_oom else ()
    kernel = (KernelLog("kmsg", (), kills, ()),) if kills or failure.oom_counted else ()
    return Context(
        kernel_logs=kernel,
        room=failure.room,
        exit_codes=() if failure.code is None else (failure.code,),
        own_modules=list_own_modules(Path.cwd()),
        early_end=failure.early_end,
    )


_MOST_ENTRIES = 2000
_MOST_INSIDE = 200


def list_own_modules(directory: Path) -> frozenset[str]:
    """Return the names under which scripts started in `directory`, or in its src/, import its own files.

    A directory counts where it holds a Python file, itself or one level below. What cannot be read has none.
    """
    return frozenset(name for root in (directory, directory / "src") for name in _names(root))


def _names(root: Path) -> list[str]:
    try:
        entries = list(islice(root.iterdir(), _MOST_ENTRIES))
    except OSError:
        return []
    files = [entry.stem for entry in entries if entry.suffix == ".py"]
    return files + [entry.name for entry in entries if entry.name.isidentifier() and _holds_python(entry)]


def _holds_python(directory: Path) -> bool:
    try:
        inside = list(islice(directory.iterdir(), _MOST_INSIDE))
    except OSError:
        return False
    if any(entry.suffix == ".py" for entry in inside):
        return True
    return any((entry / "__init__.py").is_file() for entry in inside)
