"""Ranks and the GPUs that they were given: by the plan, by torch inside the rank, and by the driver."""

from pathlib import Path
from typing import Any

from tests.gpu import smi
from tests.gpu.board import Board
from tests.gpu.launches import Launch
from tests.gpu.ledger import Ledger

SECONDS_PER_STEP = "0.2"


def verify_devices(board: Board, ledger: Ledger) -> None:
    """Run one rank on every GPU that torch sees, and compare what each says of its device with the plan."""
    board.need_torch()
    place = Launch(board)
    count = len(board.torch["gpus"])
    place.configure(["--steps", "40", "--seconds", SECONDS_PER_STEP], gpus="all", guard="stop")
    place.start()
    ranks = [place.ready(rank) for rank in range(count)]
    during = board.smi_xml()
    alive = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
    code = place.wait(60)
    planned = _planned_gpus(place.plan())
    ledger.equal("exit code", code, 0)
    ledger.equal("ranks in the plan", len(planned), count)
    for rank, uuid in zip(ranks, planned, strict=True):
        number = rank["rank"]
        ledger.equal(f"rank {number}: UUID by torch", rank["uuid"], uuid)
        ledger.note(
            f"rank {number}: LOCAL_RANK, CUDA_VISIBLE_DEVICES", f"{rank['local_rank']}, {rank['visible']}"
        )
        listed = smi.pids(during, uuid)
        if not listed:
            ledger.unable(f"rank {number}: pid on its GPU", "the driver lists no process here")
        elif not listed & alive:
            ledger.unable(f"rank {number}: pid on its GPU", "the driver lists pids of another PID namespace")
        else:
            ledger.check(
                f"rank {number}: pid on its GPU by the driver",
                sorted(listed),
                ok=rank["pid"] in listed,
                expected=rank["pid"],
            )
    ledger.equal("different GPUs", len({rank["uuid"] for rank in ranks}), count)
    verified = place.outcome()["verified"]
    if board.simulated:
        ledger.unable("the guard's own comparison", "tensors of a simulated board lie on the CPU")
    else:
        ledger.equal("verified by the guard", verified["world_ranks_devices"], True)
    _judge_usage(place.outcome(), planned, ledger)


def _judge_usage(outcome: dict[str, Any], planned: list[str], ledger: Ledger) -> None:
    usage = outcome["usage"]
    ledger.equal("GPUs in the gauge's numbers", [each["gpu"] for each in usage], planned)
    for each in usage:
        peak = each["gpu_memory_peak_mib"]
        ledger.check(
            f"rank {each['rank']}: peak GPU memory in MiB",
            peak,
            ok=bool(peak and peak > 100),
            expected="more than 100",
        )
        ledger.note(
            f"rank {each['rank']}: mean use in percent, mean power in W",
            f"{each['gpu_busy_mean']}, {each['gpu_power_mean_w']}",
        )
    ledger.equal("what the gauge could not read", outcome["usage_missing"] or "nothing", "nothing")


def _planned_gpus(plan: dict[str, Any]) -> list[str]:
    return [str(slot["gpu_uuid"]) for node in plan["nodes"] for slot in node["ranks"]["slots"]]
