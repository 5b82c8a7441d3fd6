"""A training of one GPU per rank that ends as asked: see --fault. Writes ready-RANK.json once it computes."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch

GIB = 1 << 30
CLASSES = 4


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--fault", default="", choices=("", *FAULTS))
    parser.add_argument("--at", type=int, default=5, help="optimizer step before which the fault happens")
    parser.add_argument("--seconds", type=float, default=0.0, help="time per step, at least")
    parser.add_argument("--pure-half", action="store_true", help="float16 parameters under a scaler")
    parser.add_argument("--times", action="store_true", help="write the time of each step to times.json")
    return parser.parse_args()


class Foreign:
    """Memory as another library would hand it over: it starts in a block, and ends far behind it."""

    def __init__(self, block: Any) -> None:
        shape = (1 << 40,)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<f4",
            "data": (block.data_ptr(), False),
            "version": 2,
        }


def be_nan(model: Any, device: Any) -> None:
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = float("nan")


def be_out_of_memory(model: Any, device: Any) -> None:
    count = 1 + torch.cuda.get_device_properties(device).total_memory // GIB
    blocks = [torch.empty(GIB, dtype=torch.uint8, device=device) for _ in range(count)]
    raise SystemExit(f"the GPU gave {len(blocks)} GiB, more than it has")


def be_full(model: Any, device: Any) -> None:
    """Leave too little memory for cuBLAS, so long that the gauge sees it: the first matrix product fails."""
    square = torch.randn(64, 64).to(device)
    kept, size = [], GIB
    while size > 1 << 20:
        try:
            kept.append(torch.empty(size, dtype=torch.uint8, device=device))
        except torch.OutOfMemoryError:
            size //= 2
    print("free MiB", torch.cuda.mem_get_info(device)[0] >> 20, flush=True)
    time.sleep(8)
    print("product", (square @ square).sum().item())
    raise SystemExit("cuBLAS found room")


def be_illegal(model: Any, device: Any) -> None:
    block = torch.empty(1024, device=device)
    foreign = torch.as_tensor(Foreign(block), device=device)
    print("read", foreign[-1024:].sum().item())


def be_assert(model: Any, device: Any) -> None:
    logits = torch.empty(8, CLASSES, device=device).fill_(0.5)
    target = torch.full((8,), CLASSES + 5).to(device)
    print("loss", torch.nn.functional.cross_entropy(logits, target).item())


def be_spin(model: Any, device: Any) -> None:
    torch.cuda._sleep(2_000_000_000_000)
    torch.cuda.synchronize()


def be_waiting(model: Any, device: Any) -> None:
    time.sleep(600)


def be_absent(model: Any, device: Any) -> None:
    """The last rank does not come to a collective that the others are in."""
    if int(os.environ["RANK"]) + 1 == int(os.environ["WORLD_SIZE"]):
        time.sleep(600)
    value = torch.ones(1 << 20).to(device)
    torch.distributed.all_reduce(value)
    torch.cuda.synchronize()


FAULTS = {
    "nan": be_nan,
    "out-of-memory": be_out_of_memory,
    "full": be_full,
    "illegal-access": be_illegal,
    "device-assert": be_assert,
    "spin": be_spin,
    "wait": be_waiting,
    "absent": be_absent,
}


def here() -> Any:
    return torch.device("cuda", torch.cuda.current_device())


def about_rank(device: Any) -> dict[str, Any]:
    return {
        "rank": int(os.environ.get("RANK", "0")),
        "local_rank": int(os.environ.get("LOCAL_RANK", "0")),
        "pid": os.getpid(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "count": torch.cuda.device_count(),
        "uuid": f"GPU-{torch.cuda.get_device_properties(device).uuid}",
        "name": torch.cuda.get_device_name(device),
    }


def main() -> None:
    arguments = options()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("nccl")
    torch.manual_seed(0)
    width = arguments.width
    layers = [
        layer for _ in range(arguments.depth) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())
    ]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).to(device)
    if arguments.pure_half:
        model = model.half()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda") if arguments.pure_half else None
    inputs = torch.randn(arguments.batch, width).to(device)
    inputs = inputs.half() if arguments.pure_half else inputs
    times = train(arguments, model, optimizer, scaler, inputs)
    if arguments.times:
        Path(f"times-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(times))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def train(arguments: argparse.Namespace, model: Any, optimizer: Any, scaler: Any, inputs: Any) -> list[float]:
    times = []
    for step in range(1, arguments.steps + 1):
        start = time.perf_counter()
        if arguments.fault and step == arguments.at:
            FAULTS[arguments.fault](model, here())
        optimizer.zero_grad()
        loss = model(inputs).float().pow(2).mean()
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if step == 1:
            about = about_rank(here())
            ready = Path(f"ready-{about['rank']}.json")
            Path(f"{ready}.new").write_text(json.dumps(about))
            Path(f"{ready}.new").rename(ready)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(max(0.0, arguments.seconds - (time.perf_counter() - start)))
        times.append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
