"""Runs the cases one after another, each with a limit of its own and all within one."""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from tests.gpu import smi, strays
from tests.gpu.board import MARK, Board
from tests.gpu.case import CANNOT_RUN, Case
from tests.gpu.ledger import Observation, Verdict, read
from tests.gpu.patience import Patience

SETTLE_S = 20.0  # a driver may need this long to give back the memory of a process that was killed
END_S = 8.0  # from the end of a case to that of what it started
AFTERWARDS = "the machine is as it was: settings, processes, memory"
FREED_MIB = 64  # the driver's own use of an idle GPU moves by a few MiB


class Status(StrEnum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failed"
    CANNOT_RUN = "cannot run"


@dataclass(frozen=True)
class Result:
    """One case as the report shows it; `reason` is empty where it passed."""

    name: str
    title: str
    status: Status
    seconds: float
    reason: str = ""
    observations: Sequence[Observation] = field(default=())


def run_cases(board: Board, cases: Sequence[Case], limit_s: float) -> Iterator[Result]:
    """Yield each case's result as soon as it is known; the last one is about what the suite left behind.

    A fault of the suite itself is the failure of its case: what follows runs, and is reported.
    """
    deadline = time.monotonic() + limit_s
    before = board.smi_xml()
    for case in cases:
        left_s = deadline - time.monotonic()
        if left_s < case.least_s:
            text = f"out of time: {max(0.0, left_s):.0f} s of {limit_s:.0f} s were left"
            yield Result(case.name, case.title, Status.CANNOT_RUN, 0.0, text)
            continue
        yield _guarded(case.name, case.title, partial(run_case, board, case, left_s))
    yield _guarded("afterwards", AFTERWARDS, partial(afterwards, board, before))


def _guarded(name: str, title: str, run: Callable[[], Result]) -> Result:
    start = time.monotonic()
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - a bug of the suite; the report says where
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{Path(where.filename).name}:{where.lineno}: {type(error).__name__}: {error}"
        return Result(name, title, Status.FAILED, time.monotonic() - start, text)


def run_case(board: Board, case: Case, left_s: float) -> Result:
    """Run one case; whatever it leaves alive counts as its failure and is ended.

    Its limit is stretched on a busy machine, and `left_s` on the clock is the most.
    """
    start = time.monotonic()
    place = board.scratch / case.name
    place.mkdir()
    ledger = place / "ledger.jsonl"
    code, said = _run_child(board, case, (str(ledger), str(place), board.simulated), left_s)
    left = strays.wait_gone(board.env[MARK], END_S)
    strays.end_all(board.env[MARK])
    seen = read(ledger)
    status, reason = _judge(code, said, seen, time.monotonic() - start)
    if left and status is not Status.FAILED:
        status, reason = Status.FAILED, f"it left processes: {_some(left.values())}"
    return Result(case.name, case.title, status, time.monotonic() - start, reason, seen)


def _run_child(board: Board, case: Case, words: Sequence[str], left_s: float) -> tuple[int | None, str]:
    """Return the exit code, None after the time limit, and the end of stderr."""
    errors = Path(words[1]) / "stderr"
    argv = (sys.executable, "-m", "tests.gpu.child", case.name, *words)
    with errors.open("wb") as sink:
        child = subprocess.Popen(
            argv, env=board.env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
        )
        code = Patience(case.limit_s, at_most_s=left_s).wait(child)
        if code is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    lines = errors.read_text(errors="replace").strip().splitlines()
    return code, lines[-1] if lines else ""


def _judge(code: int | None, said: str, seen: Sequence[Observation], limit_s: float) -> tuple[Status, str]:
    wrong = [each.what for each in seen if each.verdict is Verdict.WRONG]
    if code is None:
        return Status.FAILED, f"it did not end within {limit_s:.0f} s"
    if wrong:
        return Status.FAILED, f"not as expected: {_some(wrong)}"
    if code == CANNOT_RUN:
        return Status.CANNOT_RUN, said
    if code:
        return Status.FAILED, said or f"exit code {code}"
    unable = [f"{each.what}: {each.expected}" for each in seen if each.verdict is Verdict.UNABLE]
    if any(each.verdict is Verdict.OK for each in seen):
        return Status.PASSED, f"cannot say: {_some(unable)}" if unable else ""
    if unable:
        return Status.CANNOT_RUN, _some(unable)
    return Status.FAILED, "it has judged nothing"


def afterwards(board: Board, before: str) -> Result:
    """Compare the machine with what it was: settings, listed processes, memory, our own processes."""
    start = time.monotonic()
    seen: list[Observation] = []

    def check(what: str, observed: object, expected: object, *, ok: bool) -> None:
        seen.append(Observation(what, str(observed), str(expected), Verdict.OK if ok else Verdict.WRONG))

    left = strays.marked(board.env[MARK])
    strays.end_all(board.env[MARK])
    check("processes of the suite", _some(left.values()) or "none", "none", ok=not left)
    after = _settled(board, before)
    old, new = smi.settings(before), smi.settings(after)
    changed = {key: f"{old.get(key)} -> {new.get(key)}" for key in old | new if old.get(key) != new.get(key)}
    check("settings that changed", changed or "none", f"none of {len(old)}", ok=not changed)
    for gpu in smi.gpus(before):
        uuid = smi.text(gpu, "uuid")
        more = smi.pids(after, uuid) - smi.pids(before, uuid)
        check(f"new processes on {uuid}", sorted(more) or "none", "none", ok=not more)
        was, now = smi.used_mib(before, uuid), smi.used_mib(after, uuid)
        limit = was + FREED_MIB
        check(f"memory used on {uuid}", f"{now:.0f} MiB", f"at most {limit:.0f} MiB", ok=now <= limit)
    wrong = [each.what for each in seen if each.verdict is Verdict.WRONG]
    status = Status.FAILED if wrong else Status.PASSED
    reason = f"not as expected: {_some(wrong)}" if wrong else ""
    return Result("afterwards", AFTERWARDS, status, time.monotonic() - start, reason, seen)


def _settled(board: Board, before: str) -> str:
    """Return nvidia-smi's words once all memory is given back, or after SETTLE_S."""

    def freed(after: str) -> bool:
        uuids = [smi.text(gpu, "uuid") for gpu in smi.gpus(before)]
        return all(smi.used_mib(after, uuid) <= smi.used_mib(before, uuid) + FREED_MIB for uuid in uuids)

    return wait_for(board.smi_xml, freed, SETTLE_S)


def wait_for(ask: Callable[[], str], good: Callable[[str], bool], within_s: float) -> str:
    """Return the first answer that is good, or the last one."""
    deadline = time.monotonic() + within_s
    while not good(answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.25)
    return answer


def _some(words: object) -> str:
    """Return up to five of many texts in one line."""
    listed = [str(word) for word in words]  # type: ignore[attr-defined]
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return "; ".join(listed[:5]) + more
