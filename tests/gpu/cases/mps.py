"""Clients of the Multi-Process Service on the GPU: how the driver lists them, and what preflight says."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from preflight.facts.missing import Missing
from tests.gpu import smi
from tests.gpu.board import Board
from tests.gpu.cases.facts import record
from tests.gpu.launches import Launch
from tests.gpu.ledger import CannotRun, Ledger, Stopped
from tests.gpu.programs import holder
from tests.gpu.suite import SETTLE_S, wait_for

HELD_MIB = 512
CONTROL = "nvidia-cuda-mps-control"


def share_by_mps(board: Board, ledger: Ledger) -> None:
    """Two clients hold memory through an MPS server of the case: each is one holder, known as a client."""
    board.need_torch()
    with (
        _server(board) as env,
        holder(board, HELD_MIB, **env) as (_, one),
        holder(board, HELD_MIB, **env) as (_, two),
    ):
        clients, uuid = {one["pid"], two["pid"]}, one["uuid"]
        letters = _letters(board.smi_xml(), uuid)
        ledger.note("letters by nvidia-smi", sorted(letters.values()))
        facts = record(board, name="mps")
        if isinstance(facts.gpus, Missing):
            raise Stopped(f"the agent has read no GPU: {facts.gpus.reason}")
        gpu = next(each for each in facts.gpus if each.uuid == uuid)
        if isinstance(gpu.processes, Missing):
            raise Stopped(f"the agent has read no process: {gpu.processes.reason}")
        ledger.equal("pids by the agent", sorted(each.pid for each in gpu.processes), sorted(letters))
        kinds = sorted({each.kind for each in gpu.processes if each.pid in clients})
        ledger.equal("kind of the clients", kinds, ["mps"])
        found = Launch(board, "preflight").command("preflight", "localhost", "--json").document["findings"]
        said = [each["message"] for each in found if each["code"] == "PROC001"]
        for pid in sorted(clients):
            about = [message for message in said if f"held by pid {pid} " in message]
            ok = len(about) == 1 and "a client of MPS" in about[0]
            ledger.check(
                "findings of a client", about, ok=ok, expected="one, which says that it is one of MPS"
            )
    left = wait_for(board.smi_xml, lambda xml: not smi.pids(xml, uuid), SETTLE_S)
    ledger.equal("pids afterwards", sorted(smi.pids(left, uuid)), [])


def _letters(xml: str, uuid: str) -> dict[int, str]:
    listed = smi.by_uuid(xml, uuid).findall("processes/process_info")
    return {int(each.findtext("pid") or 0): each.findtext("type") or "" for each in listed}


@contextmanager
def _server(board: Board) -> Iterator[dict[str, str]]:
    """Start a daemon of MPS whose pipes only the case knows; give the environment of its clients."""
    program = shutil.which(CONTROL)
    if program is None:
        raise CannotRun(f"there is no {CONTROL}")
    with tempfile.TemporaryDirectory(prefix="mps-") as place:  # a short path: the pipes are sockets
        env = {"CUDA_MPS_PIPE_DIRECTORY": place, "CUDA_MPS_LOG_DIRECTORY": place}
        try:
            code = _control(program, "-d", env={**board.env, **env})
            if code:
                raise CannotRun(f"{CONTROL} -d: exit code {code}")
            yield env
        finally:
            _control(program, env={**board.env, **env}, words="quit -t 5\n")


def _control(program: str, *argv: str, env: Mapping[str, str], words: str = "") -> int:
    """Run the control program; return its exit code. A daemon would keep a pipe of its output open."""
    null = subprocess.DEVNULL
    done = subprocess.run(
        (program, *argv), env=env, input=words, text=True, stdout=null, stderr=null, timeout=30, check=False
    )
    return done.returncode
