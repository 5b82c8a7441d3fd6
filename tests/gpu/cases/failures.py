"""Trainings that fail as trainings on GPUs do: the outcome, its diagnosis, and the memory afterwards."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gpu import smi
from tests.gpu.board import MARK, Board
from tests.gpu.launches import Launch
from tests.gpu.ledger import CannotRun, Ledger, Stopped
from tests.gpu.strays import marked
from tests.gpu.suite import FREED_MIB, SETTLE_S, wait_for

STOPPED = 86
END_S = 20.0  # from the death of a rank to the end of the run
HANG_S = 20


@dataclass(frozen=True)
class Failure:
    """A fault of train.py, and what the run has to say of it."""

    fault: str
    signature: str  # of the diagnosis
    words: str  # in the rank's log: the fault was the one that was wanted
    least_room: bool = False  # the gauge has seen that the GPU's memory was nearly used up


FAILURES = (
    Failure("out-of-memory", "S20", "out of memory"),
    Failure("full", "S20", "CUBLAS_STATUS|out of memory", least_room=True),
    Failure("illegal-access", "S38", "illegal memory access"),
    Failure("device-assert", "S39", "device-side assert"),
)


def fail(failure: Failure) -> Callable[[Board, Ledger], None]:
    """Return the case of a failure."""

    def case(board: Board, ledger: Ledger) -> None:
        board.need_torch()
        place = Launch(board)
        place.configure(["--fault", failure.fault, *(("--at", "1") if failure.least_room else ())])
        before = board.smi_xml()
        ended = place.run(limit_s=80)
        outcome, log = place.outcome(), place.log()
        ledger.check("exit code", ended.code, ok=ended.code not in (0, 5, 70, 124), expected="the rank's")
        ledger.equal("verdict", outcome["verdict"], "failed")
        if failure.least_room and board.simulated:
            ledger.unable("diagnosis", "a simulated board computes on the CPU, which has room")
        else:
            as_wanted = re.search(failure.words, log) is not None
            ledger.check(
                "the rank's log", log.strip().splitlines()[-1:], ok=as_wanted, expected=failure.words
            )
            causes = (outcome["diagnosis"] or {}).get("causes") or [{}]
            ledger.equal("diagnosis", causes[0].get("code"), failure.signature)
        ledger.note("seconds", ended.seconds)
        if failure.least_room:
            room = (outcome["root_cause"] or {}).get("room") or {}
            ledger.between("MiB free on the GPU before, by the gauge", room.get("gpu_free_mib"), 0, 1024)
            ledger.between("its age in seconds", room.get("age_s"), 0, 15)
        _judge_memory(board, before, ledger)

    return case


def stop_nan(board: Board, ledger: Ledger) -> None:
    """Weights that become NaN: the guard stops the run and names the first bad step."""
    board.need_torch()
    _guard_stops(board, ledger, ["--fault", "nan", "--at", "6", "--steps", "400", "--seconds", "0.02"], "G4")


def stop_pure_half(board: Board, ledger: Ledger) -> None:
    """float16 parameters under a GradScaler: refused by what the script shows; else the guard stops it."""
    board.need_torch()
    _guard_stops(board, ledger, ["--pure-half", "--steps", "50"], "G1", "SCR001")


def _guard_stops(board: Board, ledger: Ledger, args: list[str], code: str, refused_by: str = "") -> None:
    place = Launch(board)
    place.configure(args, guard="stop")
    before = board.smi_xml()
    if refused_by:
        refused = place.run("--dry-run", "--json")
        ledger.check(
            "what the script shows", refused.last_words, ok=refused_by in refused.err, expected=refused_by
        )
    ended = place.run(*(("--ignore", refused_by) if refused_by else ()), limit_s=80)
    ledger.equal("exit code", ended.code, STOPPED)
    summary = str((place.outcome()["root_cause"] or {}).get("summary", ended.last_words))
    ledger.check("what gpulaunch says", summary, ok=f"[{code}]" in summary, expected=code)
    if code == "G4":
        step = re.search(r"optimizer step (\d+)", summary)
        # 6 and 7: in time; 25: the sample behind the one that was in flight
        named = int(step.group(1)) if step else 0
        ledger.check("the step that it names", named, ok=named in (6, 7, 25), expected="6 or 7, at most 25")
    _judge_memory(board, before, ledger)


def kill_rank(board: Board, ledger: Ledger) -> None:
    """A rank is killed: the run ends, and its memory is free."""
    board.need_torch()
    place = Launch(board)
    place.configure(["--fault", "wait"])
    before = board.smi_xml()
    rank = place.start()
    os.kill(rank["pid"], signal.SIGKILL)
    start = time.monotonic()
    code = place.wait(60)
    ledger.check("exit code", code, ok=code not in (0, 70, 124), expected="not 0")
    ledger.between("seconds from the signal to the end", time.monotonic() - start, 0.0, END_S)
    ledger.note("root cause", place.outcome()["root_cause"])
    _judge_memory(board, before, ledger)


def kill_client(board: Board, ledger: Ledger) -> None:
    """The client is killed: the run lives; `gpulaunch stop` ends it, and its memory is free."""
    board.need_torch()
    place = Launch(board)
    place.configure(["--fault", "wait"])
    before = board.smi_xml()
    rank = place.start()
    assert place.started is not None
    place.started.kill()
    place.started.wait()
    listed = place.command("ps", "localhost", "--json")
    name = place.directory().name
    ledger.check("gpulaunch ps", listed.code, ok=listed.code == 0 and name in listed.out, expected=name)
    ledger.check("the rank", rank["pid"], ok=_is_alive(rank["pid"]), expected="alive")
    stopped = place.command("stop", name)
    ledger.check("gpulaunch stop", stopped.last_words, ok=stopped.code == 0, expected="exit code 0")
    ledger.check("the rank afterwards", rank["pid"], ok=not _is_alive(rank["pid"]), expected="ended")
    _judge_memory(board, before, ledger)


def kill_all(board: Board, ledger: Ledger) -> None:
    """Client, supervisor and launcher are killed: the kernel ends the rank, and its memory is freed."""
    board.need_torch()
    place = Launch(board)
    place.configure(["--fault", "wait"])
    before = board.smi_xml()
    rank = place.start()
    for pid in marked(board.env[MARK]):
        if pid != rank["pid"]:
            os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    while _is_alive(rank["pid"]) and time.monotonic() - start < END_S:
        time.sleep(0.1)
    ledger.check("the rank", rank["pid"], ok=not _is_alive(rank["pid"]), expected="ended")
    ledger.note("seconds until it ended", time.monotonic() - start)
    _judge_memory(board, before, ledger)


def clean_orphan(board: Board, ledger: Ledger) -> None:
    """A rank of torchrun whose launcher was killed: clean-zombies names it and ends it."""
    board.need_torch()
    place = Launch(board)
    before = board.smi_xml()
    argv = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node",
        "1",
        "train.py",
        "--fault",
        "wait",
    )
    with (place.home / "client.log").open("wb") as log:
        launcher = subprocess.Popen(
            argv, cwd=place.home, env=board.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    rank = place.ready(0)["pid"]
    launcher.kill()
    launcher.wait()
    time.sleep(1.0)
    if not _is_alive(rank):
        raise Stopped("the rank ended with its launcher")
    shown = place.command("clean-zombies", "--dry-run", "--json")
    (found,) = [one for host in shown.document["hosts"].values() for one in _processes(host, rank)] or [{}]
    words = f"{found.get('class', 'not listed')}: {'; '.join(found.get('evidence', ()))}"
    if found.get("class") == "live" and found.get("ppid") == 1:
        ledger.unable("class by clean-zombies", f"pid 1 of this machine may have started it: {words}")
    else:
        ledger.check("class by clean-zombies", words, ok=found.get("class") == "orphan", expected="orphan")
    ended = place.command("clean-zombies", "--yes", "--pid", str(rank), "--json")
    ledger.check("clean-zombies --yes", ended.last_words, ok=ended.code == 0, expected="exit code 0")
    ledger.check("the rank afterwards", rank, ok=not _is_alive(rank), expected="ended")
    _judge_memory(board, before, ledger)


def _processes(host: dict[str, Any], pid: int) -> list[dict[str, Any]]:
    return [one for one in host.get("processes", ()) if one.get("pid") == pid]


def hang_kernel(board: Board, ledger: Ledger) -> None:
    """A kernel that only spins, as a collective without its peers: what NVML shows, and the run."""
    board.need_torch()
    place = Launch(board)
    place.configure(
        ["--fault", "spin", "--steps", "400", "--seconds", "0.05", "--at", "60"], hang_timeout=f"{HANG_S}s"
    )
    before = board.smi_xml()
    rank = place.start()
    time.sleep(8.0)
    gpu = smi.by_uuid(board.smi_xml(), rank["uuid"])
    _note_load(gpu, "a kernel that spins", ledger)
    code = place.wait(100)
    outcome = place.outcome()
    ledger.note("verdict", outcome["verdict"])
    ledger.note("hang", outcome["hang"])
    ledger.equal("exit code", code, 124)
    _judge_memory(board, before, ledger)


def hang_collective(board: Board, ledger: Ledger) -> None:
    """One of two ranks does not come to an all-reduce."""
    about = board.need_torch()
    if len(about["gpus"]) < 2:
        raise CannotRun("it needs two GPUs, and this machine has one")
    place = Launch(board)
    place.configure(["--fault", "absent", "--at", "3"], gpus=2, hang_timeout=f"{HANG_S}s")
    before = board.smi_xml()
    rank = place.start()
    time.sleep(8.0)
    _note_load(smi.by_uuid(board.smi_xml(), rank["uuid"]), "a collective without its peer", ledger)
    code = place.wait(100)
    outcome = place.outcome()
    ledger.equal("exit code", code, 124)
    hang = str(outcome["hang"])
    ledger.check("who differs", hang, ok="1" in hang, expected="rank 1")
    _judge_memory(board, before, ledger)


def _note_load(gpu: smi.Element, what: str, ledger: Ledger) -> None:
    for name, paths in {
        "GPU use in percent": ("utilization/gpu_util",),
        "memory use in percent": ("utilization/memory_util",),
        "power in W": tuple(f"gpu_power_readings/{kind}power_draw" for kind in ("instant_", "average_", "")),
        "power limit in W": ("gpu_power_readings/current_power_limit",),
        "SM clock in MHz": ("clocks/sm_clock",),
    }.items():
        ledger.note(f"{what}: {name}", smi.number(gpu, *paths))


def _judge_memory(board: Board, before: str, ledger: Ledger) -> None:
    """Check that all memory is given back, and how long it takes."""
    start = time.monotonic()
    limits = {smi.text(gpu, "uuid"): 0.0 for gpu in smi.gpus(before)}
    limits = {uuid: smi.used_mib(before, uuid) + FREED_MIB for uuid in limits}
    after = wait_for(
        board.smi_xml,
        lambda xml: all(smi.used_mib(xml, uuid) <= mib for uuid, mib in limits.items()),
        SETTLE_S,
    )
    for uuid, mib in limits.items():
        used = smi.used_mib(after, uuid)
        ledger.check(
            "GPU memory afterwards", f"{used:.0f} MiB", ok=used <= mib, expected=f"at most {mib:.0f} MiB"
        )
    ledger.note("seconds until it was free", time.monotonic() - start)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
