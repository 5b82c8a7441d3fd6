"""The device of a rank: a GPU, or the CPU with small sizes over the same code."""

import os
from typing import Any, Callable

from ..procfs import read_text
from .clocks import ProcessorClock, Reading, WallClock

MIB = 1 << 20
GIB = 1 << 30


class CpuDevice:
    """The processors of the host, so that every step also runs where no GPU is."""

    kind = "cpu"
    backend = "gloo"
    memory_chunk = 16 * MIB
    copy_bytes = 16 * MIB
    host_copy_bytes = 16 * MIB
    collective_bytes = 4 * MIB
    pair_bytes = 4 * MIB
    suspect = 0.6  # pairs of nodes below this share of what most reach are repeated

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        torch.set_num_threads(1)  # those of a rank would wait for each other where ranks share processors
        self.device = torch.device("cpu")
        self.dtype = torch.float32
        self.matrix = 256
        self.clock = WallClock()

    def begin_step(self) -> Reading:
        """Start a step: from now on its rates are those without the time that other processes took."""
        self.clock = ProcessorClock()
        return self.clock.read()

    def synchronize(self) -> None:
        """Wait for what was started: nothing outlives its call on a CPU."""

    def memory_to_test(self) -> int:
        """Return how many bytes the pattern fills."""
        return 64 * MIB

    def allocate_pinned(self, count: int) -> Any:
        """Return host memory for copies, as bytes."""
        return self.torch.zeros(count, dtype=self.torch.uint8)

    def facts(self) -> dict[str, Any]:
        """Return what identifies the device and its kind."""
        return {
            "device": "cpu",
            "model": read_cpu_model(),
            "capability": str(self.torch.backends.cpu.get_cpu_capability()),
        }

    def can_access(self, local_rank: int) -> bool | None:
        """Return None: peer access is a property of GPUs."""
        del local_rank
        return None

    def release_memory(self) -> None:
        """Give memory back: torch keeps none on a CPU."""


class GpuDevice:
    """One CUDA GPU, by its position among the visible ones."""

    kind = "gpu"
    backend = "cpu:gloo,cuda:nccl"
    memory_chunk = 256 * MIB
    copy_bytes = GIB
    host_copy_bytes = 256 * MIB
    collective_bytes = GIB
    pair_bytes = 256 * MIB
    suspect = 0.9

    def __init__(self, torch: Any, local_rank: int) -> None:
        self.torch = torch
        self.clock = WallClock()
        self.masked = torch.cuda.device_count() == 1
        index = 0 if self.masked else local_rank
        torch.cuda.set_device(index)
        self.device = torch.device("cuda", index)
        self.properties = torch.cuda.get_device_properties(index)
        self.uuid = find_visible_uuid(index) or _as_uuid(getattr(self.properties, "uuid", ""))
        total = int(self.properties.total_memory)
        self.matrix = 8192 if total >= 12 * GIB else 4096
        self.dtype = torch.bfloat16 if torch.cuda.get_device_capability(index) >= (8, 0) else torch.float16
        if total < 16 * GIB:
            self.copy_bytes = self.collective_bytes = 256 * MIB

    def begin_step(self) -> Reading:
        """Start a step."""
        return self.clock.read()

    def synchronize(self) -> None:
        """Wait for what was started."""
        self.torch.cuda.synchronize(self.device)

    def memory_to_test(self) -> int:
        """Return how many bytes the pattern fills: four fifths of what is free."""
        free, _ = self.torch.cuda.mem_get_info(self.device)
        return int(free * 0.8)

    def allocate_pinned(self, count: int) -> Any:
        """Return pinned host memory for copies, as bytes."""
        return self.torch.zeros(count, dtype=self.torch.uint8, pin_memory=True)

    def facts(self) -> dict[str, Any]:
        """Return what identifies the GPU and its kind."""
        major, minor = self.torch.cuda.get_device_capability(self.device)
        return {
            "device": "gpu",
            "model": str(self.properties.name),
            "uuid": self.uuid,
            "capability": "%d.%d" % (major, minor),
            "sms": int(self.properties.multi_processor_count),
            "cuda": str(self.torch.version.cuda),
        }

    def can_access(self, local_rank: int) -> bool | None:
        """Return whether this GPU may address the memory of another rank's; None: this rank sees one only."""
        if self.masked or local_rank >= self.torch.cuda.device_count():
            return None
        return bool(self.torch.cuda.can_device_access_peer(self.device.index, local_rank))

    def release_memory(self) -> None:
        """Give memory back, so that the next step has all of it."""
        self.torch.cuda.empty_cache()


def find_device(torch: Any, local_rank: int) -> Any:
    """Return this rank's device, the CPU if none is visible. Raises RuntimeError if torch sees no GPU."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):
        return CpuDevice(torch)
    if not torch.cuda.is_available():
        raise RuntimeError("this rank was given a GPU, and torch sees none: is it a build for CPUs?")
    return GpuDevice(torch, local_rank)


def find_visible_uuid(index: int) -> str:
    """Return the UUID of the index-th visible GPU, "" where the launch does not say it."""
    words = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    return words[index] if index < len(words) and words[index].startswith("GPU-") else ""


def _as_uuid(found: object) -> str:
    text = str(found)
    return text if not text or text.startswith("GPU-") else "GPU-" + text


def read_cpu_model() -> str:
    """Return the processor's name, "CPU" where the kernel does not say it."""
    for line in read_text("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return "CPU"


def time_once(device: Any, action: Callable[[], object], clock: WallClock | None = None) -> float:
    """Return the seconds that an action takes until the device has done it, by the device's clock."""
    clock = clock or device.clock
    device.synchronize()
    began = clock.read()
    action()
    device.synchronize()
    return clock.measure_since(began)
