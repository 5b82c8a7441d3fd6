"""A process on the GPU: what NVML, nvidia-smi, /proc and the agent say of it, and of its memory."""

import shutil
import sys
from pathlib import Path
from typing import Any

from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from tests.gpu import smi
from tests.gpu.board import Board
from tests.gpu.cases.facts import record
from tests.gpu.ledger import CannotRun, Ledger, Stopped
from tests.gpu.programs import holder
from tests.gpu.suite import FREED_MIB, SETTLE_S, wait_for

HELD_MIB = 2048
CONTEXT_MIB = 1500  # what a CUDA context may take beside the tensors: 300 to 700 MiB on today's GPUs


def account_memory(board: Board, ledger: Ledger) -> None:
    """Hold memory; compare what the agent says of process and memory with what holds it."""
    board.need_torch()
    before = board.smi_xml()
    with holder(board, HELD_MIB) as (child, about):
        during = board.smi_xml()
        uuid, pid = about["uuid"], about["pid"]
        _judge_memory(_gpu(board, uuid, "held"), before, during, about, ledger)
        _judge_listing(board, during, about, ledger)
        child.kill()
        child.wait()
        limit = smi.used_mib(before, uuid) + FREED_MIB
        after = wait_for(board.smi_xml, lambda xml: smi.used_mib(xml, uuid) <= limit, SETTLE_S)
    used = smi.used_mib(after, uuid)
    ledger.check(
        "memory after SIGKILL", f"{used:.0f} MiB", ok=used <= limit, expected=f"at most {limit:.0f} MiB"
    )
    ledger.check(
        "pid after SIGKILL", pid in smi.pids(after, uuid), ok=pid not in smi.pids(after, uuid), expected=False
    )


def _judge_memory(gpu: Gpu, before: str, during: str, about: dict[str, Any], ledger: Ledger) -> None:
    memory = gpu.memory
    if isinstance(memory, Missing):
        raise Stopped(f"the agent has read no memory: {memory.reason}")
    rise = memory.used_mib - smi.used_mib(before, about["uuid"])
    ledger.between("memory used, rise in MiB", rise, HELD_MIB, HELD_MIB + CONTEXT_MIB)
    ledger.between(
        "memory used in MiB, beside nvidia-smi",
        float(memory.used_mib),
        smi.used_mib(during, about["uuid"]) - 8,
        smi.used_mib(during, about["uuid"]) + 8,
    )
    ledger.note("memory free in MiB by NVML, by CUDA", f"{memory.free_mib}, {about['free_mib']}")
    if not isinstance(memory.reserved_mib, Missing) and not isinstance(memory.free_mib, Missing):
        whole = memory.used_mib + memory.free_mib + memory.reserved_mib
        total = gpu.total_mib or 0
        ledger.between("used + free + reserved in MiB", float(whole), total - 2, total + 2)


def _judge_listing(board: Board, during: str, about: dict[str, Any], ledger: Ledger) -> None:
    uuid, pid = about["uuid"], about["pid"]
    listed = smi.pids(during, uuid)
    facts = record(board, name="listing")
    gpu = next(each for each in _gpus(facts.gpus) if each.uuid == uuid)
    if isinstance(gpu.processes, Missing):
        ledger.check("processes of the GPU", gpu.processes.reason, ok=not listed, expected=sorted(listed))
        return
    found = {process.pid: process for process in gpu.processes}
    ledger.equal("pids by the agent", sorted(found), sorted(listed))
    if pid in found and not isinstance(found[pid].used_mib, Missing):
        ledger.between("memory of the process in MiB", found[pid].used_mib, HELD_MIB, HELD_MIB + CONTEXT_MIB)  # type: ignore[arg-type]
    elif pid in found:
        ledger.unable("memory of the process", f"the driver does not give it: {found[pid].used_mib}")
    else:
        ledger.unable(
            "the driver's pid of the holder", f"the driver lists {sorted(listed)} here, the holder is {pid}"
        )
    table = facts.processes
    if isinstance(table, Missing):
        ledger.check("process table", table.reason, ok=False, expected="the holder in it")
        return
    rows = [process for process in table.processes if process.pid == pid]
    files = rows[0].gpu_files if rows else ()
    wanted = any("/dev/nvidia" in name for name in files) if not isinstance(files, Missing) else False
    if board.simulated and not wanted:
        ledger.unable("device files that the holder has open", "a simulated board has none outside its hosts")
    else:
        ledger.check("device files that the holder has open", files, ok=wanted, expected="/dev/nvidiaN")


def look_into_namespaces(board: Board, ledger: Ledger) -> None:
    """A holder in a PID namespace of its own, seen from outside; and the agent inside one."""
    board.need_torch()
    unshare = _unshare(board)
    with holder(board, HELD_MIB, unshare) as (_, about):
        ledger.check(
            "namespace of the holder",
            about["pid_namespace"],
            ok=about["pid_namespace"] != str(Path("/proc/self/ns/pid").readlink()),
            expected="another one",
        )
        listed = smi.pids(board.smi_xml(), about["uuid"])
        ledger.note("pid of the holder in its namespace", about["pid"])
        outer = _members(about["pid_namespace"])
        ledger.note("its pid outside, by /proc", outer)
        if board.simulated:
            ledger.unable(
                "the pid that the driver lists", "a simulated board lists the pid that the process has"
            )
        elif not listed:
            ledger.unable("the pid that the driver lists", "it lists no process in this container")
        else:
            ledger.check(
                "the pid that the driver lists",
                sorted(listed),
                ok=set(outer) & listed != set(),
                expected=outer,
            )
            gpu = _gpu(board, about["uuid"], "outside")
            processes = () if isinstance(gpu.processes, Missing) else gpu.processes
            ledger.equal("pids by the agent", sorted(p.pid for p in processes), sorted(listed))
        _ask_inside(board, unshare, listed, ledger)


def _ask_inside(board: Board, unshare: list[str], outer: set[int], ledger: Ledger) -> None:
    from tests.preflight.agent_runs import run_agent  # noqa: PLC0415 - it imports pynvml

    skip = ["python", "ports", "network", "paths", "kernel_log", "system", "infiniband"]
    facts = run_agent({"skip": skip}, environ=board.env, within=unshare).facts
    identity = facts.identity
    first = isinstance(identity, Missing) or identity.initial_pid_namespace
    ledger.check("the agent inside one knows that it is", not first, ok=not first, expected=True)
    gpus = _gpus(facts.gpus)
    listed = {p.pid for gpu in gpus if not isinstance(gpu.processes, Missing) for p in gpu.processes}
    ledger.note("pids that the driver lists inside", sorted(listed))
    ledger.note("the same as outside", listed == outer)


def _unshare(board: Board) -> list[str]:
    program = shutil.which("unshare")
    if program is None:
        raise CannotRun("there is no unshare")
    words = [program, "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = board.run((*words, sys.executable, "-c", "import os; print(os.getpid())"))
    if done.returncode or done.stdout.strip() != "1":
        raise CannotRun(f"no PID namespace can be made: {(done.stderr.strip() or '?').splitlines()[-1]}")
    return words


def _gpu(board: Board, uuid: str, name: str) -> Gpu:
    return next(each for each in _gpus(record(board, name=name).gpus) if each.uuid == uuid)


def _gpus(found: Any) -> tuple[Gpu, ...]:
    if isinstance(found, Missing):
        raise Stopped(f"the agent has read no GPU: {found.reason}")
    return tuple(found)


def _members(namespace: str) -> list[int]:
    """Return the processes of a PID namespace, by their pids in ours."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str((entry / "ns" / "pid").readlink()) == namespace:
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found)
