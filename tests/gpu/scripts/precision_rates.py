"""Rates of matrix products N x N in each dtype, in TFLOP/s; what cannot be computed says why."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

SECONDS = 0.4


def product(dtype: str, size: int, device: Any) -> Callable[[], Any]:
    """Return a function that computes one product."""
    torch.manual_seed(0)
    left, right = (torch.randn(size, size).to(device) for _ in range(2))
    if dtype != "float8_e4m3fn":
        left, right = (each.to(getattr(torch, dtype)) for each in (left, right))
        return lambda: left @ right
    one = torch.tensor(1.0).to(device)
    left, right = (each.to(torch.float8_e4m3fn) for each in (left, right))
    columns = right.t().contiguous().t()
    return lambda: torch._scaled_mm(left, columns, one, one, out_dtype=torch.bfloat16)


def rate(compute: Callable[[], Any], size: int) -> float:
    for _ in range(3):
        compute()
    torch.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        for _ in range(4):
            compute()
        torch.cuda.synchronize()
        count += 4
    return 2e-12 * size**3 * count / (time.perf_counter() - start)


def natively() -> bool | None:
    try:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    except TypeError:  # before torch 2.4
        return None


def main() -> None:
    size = int(sys.argv[1])
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = False
    tflops, failed = {}, {}
    for dtype in ("float32", "float16", "bfloat16", "float8_e4m3fn"):
        try:
            tflops[dtype] = rate(product(dtype, size, device), size)
        except (RuntimeError, AttributeError, TypeError, ValueError, NotImplementedError) as error:
            failed[dtype] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    said = {
        "uuid": f"GPU-{torch.cuda.get_device_properties(0).uuid}",
        "tflops": tflops,
        "failed": failed,
        "is_bf16_supported": torch.cuda.is_bf16_supported(),
        "is_bf16_supported_natively": natively(),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
