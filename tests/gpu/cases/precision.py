"""What gpulaunch decides about mixed precision, against what torch computes on this GPU, and how fast."""

from typing import Any

from preflight.decide.precision import HardwareLimit, find_hardware_limit
from preflight.facts.missing import Missing
from tests.gpu.board import Board
from tests.gpu.cases.facts import record
from tests.gpu.launches import Launch
from tests.gpu.ledger import Ledger, Stopped
from tests.gpu.programs import answer

TENSOR_CORES = 2.0
"""A matrix product on tensor cores is at least so many times as fast as float32 without TF32 (8 to 15)."""

EMULATED = 0.5
"""A dtype whose products reach less than this part of float16's rate is emulated."""

SCRIPT = """import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
"""


def decide(board: Board, ledger: Ledger) -> None:
    """Compare table and decision with measured rates of matrix products."""
    about = board.need_torch()
    facts = record(board)
    if isinstance(facts.gpus, Missing):
        raise Stopped(f"the agent has read no GPU: {facts.gpus.reason}")
    by_uuid = {gpu.uuid: gpu for gpu in facts.gpus}
    rates = answer(board, "precision_rates.py", "64" if board.simulated else "8192")
    gpu = by_uuid[rates["uuid"]]
    limit = find_hardware_limit(gpu)
    if isinstance(limit, Missing):
        raise Stopped(f"gpulaunch does not know this GPU's capability: {limit.reason}")
    ledger.equal(
        "compute capability by agent and torch", gpu.capability, tuple(about["gpus"][0]["capability"])
    )
    for name, value in rates["tflops"].items():
        ledger.note(f"matrix products in {name}, TFLOP/s", value)
    for name, words in rates["failed"].items():
        ledger.note(f"matrix products in {name}", words)
    ledger.note("torch.cuda.is_bf16_supported()", rates["is_bf16_supported"])
    ledger.note("without emulation", rates["is_bf16_supported_natively"])
    ledger.note("architectures that this torch was built for", " ".join(about["arch_list"]))
    if board.simulated:
        ledger.unable("rates", "the board is simulated")
    else:
        _judge_rates(limit, rates, ledger)
    _judge_launches(board, limit, ledger)


def _judge_launches(board: Board, limit: HardwareLimit, ledger: Ledger) -> None:
    board.need_modules("accelerate")
    place = Launch(board)
    (place.home / "train.py").write_text(SCRIPT)
    place.configure()
    planned = _planned(place)
    ledger.equal("precision: auto", planned, limit.best)
    for wanted in ("bf16", "fp16", "no"):
        got = _planned(place, "--precision", wanted)
        if wanted in limit.on_request:
            ledger.equal(f"precision: {wanted}", got, wanted)
        else:
            ledger.check(
                f"precision: {wanted}", got, ok=got != wanted, expected=f"not {wanted}: {limit.reason.source}"
            )


def _planned(place: Launch, *words: str) -> str:
    ended = place.run("--dry-run", "--json", *words)
    return str(ended.document.get("mixed_precision", f"none: {ended.last_words}"))


def _judge_rates(limit: HardwareLimit, rates: dict[str, Any], ledger: Ledger) -> None:
    tflops = rates["tflops"]
    plain, half, brain = (tflops.get(name) or 0.0 for name in ("float32", "float16", "bfloat16"))
    fast_half, fast_brain = (
        half >= TENSOR_CORES * plain,
        brain >= TENSOR_CORES * plain and brain >= EMULATED * half,
    )
    ledger.check(
        "float16 is fast", fast_half, ok=fast_half == (limit.best != "no"), expected=limit.best != "no"
    )
    ledger.check(
        "bfloat16 is native",
        fast_brain,
        ok=fast_brain == (limit.best == "bf16"),
        expected=limit.best == "bf16",
    )
    has_fp8 = "fp8" in limit.on_request
    works = "float8_e4m3fn" in tflops
    ledger.check(
        "float8 products",
        works or rates["failed"].get("float8_e4m3fn"),
        ok=works == has_fp8,
        expected=has_fp8,
    )
