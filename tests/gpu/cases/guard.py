"""The guard's CUDA paths: same numbers, no synchronisation, and what a step costs."""

from typing import Any

from tests.gpu.board import Board
from tests.gpu.ledger import Ledger
from tests.gpu.programs import answer

TRAININGS = ("float32", "bfloat16 autocast", "float16 autocast and scaler")
SIMULATED = "the board is simulated: no stream to wait for"
MOST_PERCENT = 5.0


def keep_numbers(board: Board, ledger: Ledger) -> None:
    """The same losses and weights with the guard and without it, bit for bit."""
    board.need_torch()
    found = answer(board, "guard_probe.py", "numbers", CUBLAS_WORKSPACE_CONFIG=":4096:8")
    for name in TRAININGS:
        with_guard, without = found[name]
        ledger.check(name, with_guard, ok=with_guard == without and bool(without), expected=without)
    _judge_events(found, ledger)


def avoid_synchronisation(board: Board, ledger: Ledger) -> None:
    """Per step: what torch and the CUDA runtime count as waiting, with the guard and without it."""
    board.need_torch()
    found = answer(board, "guard_probe.py", "waits")
    _judge_events(found, ledger)
    if board.simulated:
        ledger.unable("synchronisation", SIMULATED)
        return
    warned = found["warned"]
    ledger.equal("steps in which torch warns of a wait, with the guard", warned["guard"], warned["plain"])
    calls = found["calls"]
    if calls["error"]:
        ledger.unable("waits by the profiler", calls["error"])
    else:
        for name in sorted(calls["guard"].keys() | calls["plain"].keys()):
            guard, plain = calls["guard"].get(name, 0), calls["plain"].get(name, 0)
            if "Synchronize" in name:
                ledger.check(f"{name} in 30 steps", guard, ok=guard <= plain, expected=f"at most {plain}")
            else:
                ledger.note(f"{name} in 30 steps, with and without", f"{guard}, {plain}")
    for step, value in found["running"].items():
        ok = value["running"] or step == "1"
        text = f"{value['host_ms']:.1f} ms; the GPU {'still computes' if value['running'] else 'is done'}"
        expected = "the GPU still computes" if step != "1" else "either: buffers are made in the first step"
        ledger.check(f"step {step} behind a kernel of 300 ms", text, ok=ok, expected=expected)


def measure_overhead(board: Board, ledger: Ledger) -> None:
    """Seconds per step with the guard and without it, in blocks in turns; CPU time inside the guard."""
    board.need_torch()
    found = answer(board, "guard_probe.py", "cost", "40" if board.simulated else "400")
    _judge_events(found, ledger)
    for name, value in found["cost"].items():
        ledger.note(name, value)
    percent = found["cost"]["side by side, percent"]
    if board.simulated:
        ledger.unable("cost per step", SIMULATED)
    else:
        ledger.check(
            "cost per step in percent",
            percent,
            ok=percent <= MOST_PERCENT,
            expected=f"at most {MOST_PERCENT}",
        )


def _judge_events(found: dict[str, Any], ledger: Ledger) -> None:
    ledger.equal("errors and findings of the guard", found["events"] or "none", "none")
