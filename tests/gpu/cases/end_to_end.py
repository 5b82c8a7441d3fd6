"""The packaged training from start to end, a rehearsal of it, its report; and a recording of this machine."""

import json
import os
import re
import shutil
import socket

from tests.gpu import smi
from tests.gpu.board import ROOT, Board
from tests.gpu.cases.facts import recorded
from tests.gpu.launches import Launch
from tests.gpu.ledger import Ledger

MODULES = ("transformers", "peft", "accelerate", "tensorboard", "tokenizers")


def run_packaged(board: Board, ledger: Ledger) -> None:
    """templates/paper_r64.py on all GPUs, as `make demo` runs it on the CPU."""
    board.need_torch()
    board.need_modules(*MODULES)
    steps = "4" if board.simulated else "20"  # a CPU takes seconds for each
    place = _packaged(board, "packaged", "--max-steps", steps)
    ended = place.run(limit_s=150)
    ledger.check("exit code", ended.code, ok=ended.code == 0, expected=0)
    outcome = place.outcome()
    ledger.equal("verdict", outcome.get("verdict"), "finished")
    ledger.note("seconds, mixed precision", f"{ended.seconds:.1f}, {outcome.get('mixed_precision')}")
    for each in outcome.get("usage", ()):
        ledger.note(
            f"rank {each['rank']}", {key: each[key] for key in ("gpu_busy_mean", "gpu_memory_peak_mib")}
        )
    name = place.directory().name
    page = place.home / "report.html"
    report = place.command("report", name, "--html", str(page))
    ledger.check(
        "report --html",
        report.last_words,
        ok=report.code == 0 and page.stat().st_size > 10_000,
        expected="a page",
    )
    logs = place.command("logs", name)
    ledger.check("logs", logs.code, ok=logs.code == 0, expected=0)


def rehearse_packaged(board: Board, ledger: Ledger) -> None:
    """A rehearsal of five steps: everything that it can prove is proven on this GPU."""
    board.need_torch()
    board.need_modules(*MODULES)
    place = _packaged(board, "rehearsed")
    words = ("rehearse", "-c", "job.yaml", "--steps", "5", "--json")
    ended = place.command(*words, *place.ignored(), limit_s=150)
    document = ended.document
    ledger.note("what it says", json.dumps(document.get("ranks", document))[:500])
    said = f"{ended.code}: {ended.last_words}"
    ledger.check("exit code", said, ok=ended.code == 0, expected="0: all is proven")


def _packaged(board: Board, name: str, *args: str) -> Launch:
    place = Launch(board, name)
    shutil.copy(ROOT / "templates" / "paper_r64.py", place.home / "train.py")
    gpus = (
        "none" if board.simulated else "all"
    )  # its libraries make tensors on GPUs in ways that no shim follows
    place.configure(args, gpus=gpus)
    return place


def keep_recording(board: Board, ledger: Ledger) -> None:
    """`gpulaunch record --mask`: no name of this machine is in it, and it is judged again as it was."""
    document = recorded(board, "--mask", name="recording")
    text = json.dumps(document)
    secrets = {"host name": socket.gethostname(), "home directory": os.environ.get("HOME", "")}
    for gpu in smi.gpus(board.smi_xml()):
        secrets["UUID"] = smi.text(gpu, "uuid")
        secrets["serial number"] = smi.text(gpu, "serial")
    for what, secret in secrets.items():
        if len(secret) < 4:
            ledger.unable(what, f"this machine's is {secret!r}")
        else:
            found = re.search(rf"\b{re.escape(secret)}\b", text)
            ledger.check(what, "in the recording" if found else "hidden", ok=not found, expected="hidden")
    place = Launch(board, "judged")
    again = place.command("preflight", "--from", str(board.scratch / "recording.json"), "--json")
    was = sorted({code for code, *_ in document["findings"]})
    found_codes = sorted({finding["code"] for finding in again.document["findings"]})
    ledger.equal("findings of the file and of the machine", found_codes, was)
