"""torch.cuda on a simulated board: NVML lists this process, memory is limited, faults have CUDA's words.

Extends pretended_gpus by what the suite for real GPUs (tests/gpu) calls, so that faults of the suite are
found on a machine without one. SILICON_STATE names the staged board.
"""

import os
import time
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.lab.silicon.compute import CudaError, open_gpu, read_state
from tests.shims import pretended_gpus

CONTEXT_MIB = 500
ILLEGAL = (
    "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously"
    " reported at some other API call, so the stacktrace below might be incorrect."
)
ASSERT = ILLEGAL.replace("an illegal memory access was encountered", "device-side assert triggered")
OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate {want:.2f} GiB. GPU 0 has a total capacity of {total:.2f} GiB"
    " of which {free:.2f} GiB is free. Process {pid} has {held:.2f} GiB memory in use."
)


class SimulatedGpus(pretended_gpus.Gpus):
    """The GPUs that the simulated NVML shows, or those of them that CUDA_VISIBLE_DEVICES leaves."""

    def __init__(self) -> None:
        super().__init__()
        state = read_state(os.environ["SILICON_STATE"])
        self.boards = [section for name, section in state.items() if name.startswith("gpu ")]
        known = [board["uuid"] for board in self.boards]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        words = known if visible is None else [word for word in visible.split(",") if word]
        self.uuids = [known[int(word)] if word.isdigit() else word for word in words]
        self.boards = [next(b for b in self.boards if b["uuid"] == uuid) for uuid in self.uuids]
        if self.boards:
            board = self.boards[0]
            self.capability = int(board["capability.major"]), int(board["capability.minor"])
        self.mib: dict[int, int] = {}

    def open(self, device: Any) -> None:
        index = self.index(device)
        if index >= len(self.uuids):
            raise RuntimeError("CUDA error: invalid device ordinal")
        if index in self.held:
            return
        try:
            self.held[index] = open_gpu(self.uuids[index], CONTEXT_MIB)
        except CudaError as error:
            raise RuntimeError(str(error)) from None
        self.mib[index] = CONTEXT_MIB

    def take(self, device: Any, mib: int, torch: Any) -> None:
        """Hold so much more memory."""
        self.open(device)
        index = self.index(device)
        total = int(self.boards[index]["memory.total_mib"])
        if self.mib[index] + mib > total:
            sizes = {"want": mib, "total": total, "free": total - self.mib[index], "held": self.mib[index]}
            words = {name: value / 1024 for name, value in sizes.items()}
            raise torch.OutOfMemoryError(OUT_OF_MEMORY.format(pid=os.getpid(), **words))
        self.mib[index] += mib
        self.held[index].grow(self.mib[index])

    def properties(self, device: Any = None) -> SimpleNamespace:
        found = super().properties(device)
        board = self.boards[self.index(device)]
        found.name, found.total_memory = board["name"], int(board["memory.total_mib"]) << 20
        found.multi_processor_count = 4
        return found


def turn_on(torch: ModuleType) -> None:
    """Change torch, right after it was imported."""
    gpus = SimulatedGpus()
    pretended_gpus._show(torch, gpus)
    _show_more(torch, gpus)
    _hold_memory(torch, gpus)
    _fail_as_cuda(torch)


def _show_more(torch: Any, gpus: SimulatedGpus) -> None:
    major, minor = gpus.capability
    seconds = 1e9  # of _sleep's cycles

    def sleep(cycles: int) -> None:
        time.sleep(min(cycles / seconds, 600.0))

    def free(device: Any = None) -> tuple[int, int]:
        total = gpus.properties(device).total_memory
        return total - (gpus.mib.get(gpus.index(device), 0) << 20), total

    for name, what in {
        "_sleep": sleep,
        "mem_get_info": free,
        "memory_reserved": lambda device=None: (gpus.mib.get(gpus.index(device), 0) - CONTEXT_MIB) << 20,
        "max_memory_allocated": lambda device=None: gpus.mib.get(gpus.index(device), 0) << 20,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "set_sync_debug_mode": lambda _: None,
    }.items():
        setattr(torch.cuda, name, what)


def _hold_memory(torch: Any, gpus: SimulatedGpus) -> None:
    """torch.empty on a GPU takes memory of the board, and an address range of this process."""
    plain = torch.empty

    def empty(*size: Any, device: Any = None, **options: Any) -> Any:
        if device is None or torch.device(device).type != "cuda":
            return plain(*size, device=device, **options)
        made = plain(*size, device="cpu", **options)
        gpus.take(device, made.numel() * made.element_size() >> 20, torch)
        return made

    torch.empty = empty


def _fail_as_cuda(torch: Any) -> None:
    """Foreign memory that cannot be read, and targets that are no class, in CUDA's words."""
    as_tensor, cross_entropy = torch.as_tensor, torch.nn.functional.cross_entropy

    def foreign(data: Any, *args: Any, **options: Any) -> Any:
        if hasattr(data, "__cuda_array_interface__"):
            raise torch.AcceleratorError(ILLEGAL)
        return as_tensor(data, *args, **options)

    def loss(logits: Any, target: Any, *args: Any, **options: Any) -> Any:
        if int(target.max()) >= logits.shape[1]:
            raise torch.AcceleratorError(ASSERT)
        return cross_entropy(logits, target, *args, **options)

    torch.as_tensor = foreign
    torch.nn.functional.cross_entropy = loss
