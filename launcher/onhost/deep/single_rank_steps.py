"""Steps of one rank alone: memory pattern, matrix products, their digest, copies."""

import ctypes
import hashlib
import time
from typing import Any

from .devices import time_once
from .sensors import Sensors

WINDOWS = 20  # rates of a step, one per window of its time
SEEDS = (1, 2, 3, 4)
DIGEST_SIZE = {"cpu": 256, "gpu": 2048}
COPIES = 20
OVERTIME, FEWEST = 1.5, 4  # a slow device measures fewer windows, and is not taken for one that hangs
BATCH_S = 0.02  # products between two looks at the clock


def verify_memory(device: Any) -> dict[str, Any]:
    """Write an address pattern and its inverse to the memory, read both back, count words that differ."""
    torch = device.torch
    words = device.memory_chunk // 8
    chunks = max(1, device.memory_to_test() // device.memory_chunk - 2)  # two stay free for the comparison
    held = [torch.empty(words, dtype=torch.int64, device=device.device) for _ in range(chunks)]
    began = time.perf_counter()
    bad, first = 0, None
    for inverse in (False, True):
        for at, chunk in enumerate(held):
            fill_pattern(torch, chunk, at * words, inverse=inverse)
        for at, chunk in enumerate(held):
            wanted = torch.empty_like(chunk)
            fill_pattern(torch, wanted, at * words, inverse=inverse)
            wrong = int((chunk != wanted).sum())
            if wrong and first is None:
                first = at * device.memory_chunk
            bad += wrong
    device.synchronize()
    seconds = time.perf_counter() - began
    return {
        "bytes": chunks * device.memory_chunk,
        "bad_words": bad,
        "first_bad": first,
        "seconds": round(seconds, 3),
    }


def fill_pattern(torch: Any, chunk: Any, start: int, *, inverse: bool) -> None:
    """Fill a chunk with the number of each word, or with its inverse."""
    torch.arange(start, start + len(chunk), out=chunk)
    if inverse:
        chunk.bitwise_not_()


def measure_products(device: Any, seconds: float) -> dict[str, Any]:
    """Multiply matrices for `seconds`; return a rate in TFLOPS for each window, sensors beside it.

    The values are random: with equal ones a GPU needs less power, and is faster than in a training
    (https://www.thonking.ai/p/strangely-matrix-multiplications).
    """
    torch, size = device.torch, device.matrix
    left, right = (torch.randn((size, size), device=device.device).to(device.dtype) for _ in range(2))
    out = torch.empty_like(left)
    operations = 2.0 * size**3
    multiply(torch, left, right, out, 10)
    once = min(time_once(device, lambda: multiply(torch, left, right, out, 1)) for _ in range(5))
    sensors = Sensors(getattr(device, "uuid", ""))
    sensors.begin()
    rates: list[float] = []
    give_up = time.perf_counter() + OVERTIME * seconds
    while len(rates) < WINDOWS and (len(rates) < FEWEST or time.perf_counter() < give_up):
        done, began, end = 0, device.clock.read(), time.perf_counter() + seconds / WINDOWS
        while time.perf_counter() < end or not done:
            done += (times := max(1, int(BATCH_S / max(once, 1e-6))))
            multiply(torch, left, right, out, times)
            device.synchronize()
        rates.append(done * operations / device.clock.measure_since(began) / 1e12)
    return {
        "tflops": [round(rate, 6) for rate in rates],
        "size": size,
        "dtype": str(device.dtype).removeprefix("torch."),
        **sensors.end(),
    }


def multiply(torch: Any, left: Any, right: Any, out: Any, times: int) -> None:
    """Start a number of products."""
    for _ in range(times):
        torch.matmul(left, right, out=out)


def digest_products(device: Any) -> dict[str, Any]:
    """Return digests of products of seeded matrices, and whether a second time gave the same bits.

    The same model with the same torch gives the same bits: https://docs.nvidia.com/cuda/cublas/ (results
    reproducibility).
    """
    first = [digest_product(device, seed) for seed in SEEDS]
    again = [digest_product(device, seed) for seed in SEEDS]
    return {"digests": first, "stable": first == again}


def digest_product(device: Any, seed: int) -> str:
    """Return the digest of one product's bytes."""
    torch = device.torch
    size = DIGEST_SIZE[device.kind]
    generator = torch.Generator(device="cpu").manual_seed(seed)
    left, right = (torch.randn((size, size), generator=generator) for _ in range(2))
    product = torch.matmul(left.to(device.device, device.dtype), right.to(device.device, device.dtype))
    plain = product.cpu().contiguous()  # read without numpy, which a host need not have
    data = ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())
    return hashlib.sha256(data).hexdigest()[:16]


def measure_copies(device: Any) -> dict[str, Any]:
    """Copy within the device's memory; return rates in GB/s, each byte read and written."""
    torch = device.torch
    source = torch.zeros(device.copy_bytes, dtype=torch.uint8, device=device.device)
    target = torch.empty_like(source)
    rates = copy_rates(device, target, source, times=COPIES, factor=2.0)
    return {"gbs": rates, "bytes": device.copy_bytes}


def copy_rates(device: Any, target: Any, source: Any, *, times: int, factor: float = 1.0) -> list[float]:
    """Return the rate of each of some copies in GB/s, after two that are not counted."""
    for _ in range(2):
        target.copy_(source, non_blocking=True)
    taken = [time_once(device, lambda: target.copy_(source, non_blocking=True)) for _ in range(times)]
    return [round(factor * source.numel() / seconds / 1e9, 4) for seconds in taken]


def measure_host_copies(device: Any, buffers: tuple[Any, Any], times: int) -> tuple[list[float], list[float]]:
    """Return rates to the device and from it, in GB/s."""
    pinned, there = buffers
    to_device = copy_rates(device, there, pinned, times=times)
    return to_device, copy_rates(device, pinned, there, times=times)


def allocate_buffers(device: Any) -> tuple[Any, Any]:
    """Return pinned memory of the host and memory of the device."""
    pinned = device.allocate_pinned(device.host_copy_bytes)
    return pinned, device.torch.empty_like(pinned, device=device.device)
