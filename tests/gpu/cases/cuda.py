"""The start of CUDA as the agent sees it, and what keeps CUDA from starting where NVML is fine."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from preflight.facts.missing import Missing
from tests.gpu.board import Board
from tests.gpu.cases.checks import list_findings
from tests.gpu.cases.facts import record
from tests.gpu.launches import Launch
from tests.gpu.ledger import CannotRun, Ledger, Stopped

WHERE = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
name = sys.argv[1].partition(".")[0]
print(next(line.split()[-1] for line in open("/proc/self/maps") if name in line))
"""
STUBS = ("/usr/local/cuda/lib64/stubs", "/usr/local/cuda/targets/x86_64-linux/lib/stubs")


def start_cuda(board: Board, ledger: Ledger) -> None:
    """Compare the GPUs that CUDA lists with those of NVML and torch; note how long each took."""
    facts = record(board)
    cuda, gpus = facts.cuda, facts.gpus
    if isinstance(cuda, Missing) or isinstance(gpus, Missing):
        raise Stopped(f"not read: {cuda if isinstance(cuda, Missing) else gpus}")
    ledger.equal("error at the start of CUDA", cuda.error or cuda.code, 0)
    if any(gpu.mig_enabled is True for gpu in gpus):
        ledger.note("GPUs by CUDA, of a machine with MIG", cuda.uuids)
    else:
        ledger.equal("GPUs by CUDA and NVML", sorted(cuda.uuids), sorted(str(gpu.uuid) for gpu in gpus))
    for name in ("nvml", "cuda", "all"):
        ledger.note(f"ms that the agent took for: {name}", facts.probe_ms.get(name))
    try:
        known = board.need_torch()
    except CannotRun as reason:
        ledger.unable("GPUs by torch", str(reason))
    else:
        ledger.equal("GPUs by CUDA and torch", list(cuda.uuids), [each["uuid"] for each in known["gpus"]])


def break_cuda(board: Board, ledger: Ledger) -> None:
    """Take from one preflight, in a mount namespace of its own, what CUDA needs and NVML does not."""
    place = Launch(board, "preflight")
    for name, hidden, env, codes in _breaks(board):
        within = _hiding(board, hidden) if hidden else ()
        ended = place.command("preflight", "localhost", "--json", within=within, env=env)
        found = [each for each in list_findings(ended) if each["code"] in codes]
        shown = "; ".join(f"{each['severity']} {each['code']} {each['message']}" for each in found)
        bad = any(each["severity"] == "critical" for each in found)
        ledger.check(name, shown, ok=bad, expected=f"critical {' or '.join(codes)}")
    after = list_findings(place.command("preflight", "localhost", "--json"))
    left = [each["message"] for each in after if each["code"] == "DRV005"]
    ledger.equal("afterwards", left or "CUDA starts", "CUDA starts")


def _breaks(board: Board) -> Iterator[tuple[str, str, dict[str, str], tuple[str, ...]]]:
    """Yield what is broken, the path that is hidden for it, variables, and the checks that may say so."""
    yield "libcuda.so.1 hidden", _library(board, "libcuda.so.1"), {}, ("DRV005",)
    if not board.simulated:  # its nvidia-smi does not need the library, and the agent asks it then
        yield "libnvidia-ml.so.1 hidden", _library(board, "libnvidia-ml.so.1"), {}, ("DRV001",)
    for path, codes in (("/dev/nvidia-uvm", ("DRV005",)), ("/dev/nvidiactl", ("DRV001",))):
        if Path(path).exists():
            yield f"{path} is another device", path, {}, codes
    for folder in filter(Path.is_dir, map(Path, STUBS)):
        stub = board.scratch / "stub"
        stub.mkdir(exist_ok=True)
        shutil.copy(folder / "libcuda.so", stub / "libcuda.so.1")
        yield "the toolkit's stub", "", {"LD_LIBRARY_PATH": str(stub)}, ("DRV005",)
        return


def _library(board: Board, name: str) -> str:
    done = board.run((sys.executable, "-c", WHERE, name))
    if done.returncode:
        raise CannotRun(f"the loader does not find {name}")
    return done.stdout.strip()


def _hiding(board: Board, path: str) -> list[str]:
    """Return the start of a command that sees /dev/null at `path`, and that alone."""
    program = shutil.which("unshare")
    words = [str(program), "-m", "sh", "-c", f'mount --bind /dev/null {path} && exec "$@"', "sh"]
    if program is None or board.run((*words, "true")).returncode:
        raise CannotRun("no mount namespace can be made: that takes root")
    return words
