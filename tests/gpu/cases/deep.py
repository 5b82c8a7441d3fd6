"""The deep checks on this machine: all of them measure, and what they say of the GPU is noted."""

import re
from typing import Any

from tests.gpu import smi
from tests.gpu.board import Board
from tests.gpu.launches import Launch
from tests.gpu.ledger import Ledger

SECONDS = "10"
MEASURED = {"gemm_tflops", "memory_gbs", "h2d_gbs", "d2h_gbs", "h2d_together_gbs", "d2h_together_gbs"}


def measure(board: Board, ledger: Ledger) -> None:
    """Run `gpulaunch bench` on every GPU; no memory error, the same product twice, every step measured."""
    about = board.need_torch()
    place = Launch(board, "bench")
    words = ("--gpus", "none", "--seconds", "1") if board.simulated else ("--seconds", SECONDS)
    ended = place.command("bench", "localhost", "--json", *words, limit_s=150)
    found = ended.document
    ledger.check(
        "exit code", f"{ended.code}: {ended.last_words}", ok=ended.code == 0, expected="0: all was measured"
    )
    ledger.equal("ended early", found["ended"] or "no", "no")
    ledger.equal("not measured", found["unmeasured"] or "nothing", "nothing")
    ledger.note("seconds", found["seconds"])
    ranks = found["ranks"]
    ledger.equal("ranks", len(ranks), 1 if board.simulated else len(about["gpus"]))
    for rank in ranks:
        _judge_rank(
            board, rank, {value["name"] for value in found["values"] if value["rank"] == rank["rank"]}, ledger
        )
    for value in found["values"]:
        said = f"{value['value']} {value['unit']}, {value['verdict']}"
        if value["expected"] is not None:
            said += f"; {value['expected_from']}: {value['expected']}"
        ledger.note(f"rank {value['rank']}: {value['label']}", said)
    for finding in found["findings"]:
        ledger.note(f"finding {finding['code']}, {finding['severity']}", finding["message"])
    if board.simulated:
        ledger.unable("the GPU", "a simulated board measures the CPU")


def _judge_rank(board: Board, rank: dict[str, Any], measured: set[str], ledger: Ledger) -> None:
    what = f"rank {rank['rank']}"
    ledger.equal(f"{what}: memory words that came back wrong", rank["bad_words"], 0)
    ledger.check(
        f"{what}: memory tested in MiB",
        rank["memory_tested_bytes"] >> 20,
        ok=rank["memory_tested_bytes"] > 0,
        expected="more than 0",
    )
    ledger.equal(f"{what}: the same product twice", rank["digests_stable"], True)
    ledger.equal(f"{what}: steps that failed", rank["failed"] or "none", "none")
    ledger.equal(f"{what}: measured", sorted(measured & MEASURED), sorted(MEASURED))
    if board.simulated:
        return
    known = {re.sub("^GPU-", "", smi.text(gpu, "uuid")) for gpu in smi.gpus(board.smi_xml())}
    uuid = re.sub("^GPU-", "", rank["uuid"])
    ledger.check(f"{what}: UUID", rank["uuid"], ok=uuid in known, expected="one of nvidia-smi")
    ledger.check(
        f"{what}: samples of clock and power", len(rank["sensors"]), ok=bool(rank["sensors"]), expected="some"
    )
    ledger.note(f"{what}: reasons for low clocks", rank["throttle"] or "none")
    if rank["sensors"]:
        ledger.note(f"{what}: the last sample", rank["sensors"][-1])
