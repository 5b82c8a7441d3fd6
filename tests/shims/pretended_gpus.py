"""GPUs on a machine that has none: torch.cuda shows those of CUDA_VISIBLE_DEVICES, and the CPU computes.

What goes to cuda:N stays on the CPU, but first opens a context on that GPU. With SHIM_EXCLUSIVE in the
environment, a directory, a GPU takes one context only, as in Exclusive_Process mode: a lock that goes with
the process, and the second process gets the driver's error. SHIM_CAPABILITY is "7.5" and the like.
"""

import os
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"  # torch's own words


class Gpus:
    """The GPUs that this process sees, and the contexts it holds."""

    def __init__(self) -> None:
        self.uuids = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
        major, _, minor = os.environ.get("SHIM_CAPABILITY", "8.9").partition(".")
        self.capability = int(major), int(minor)
        self.current = 0
        self.held: dict[int, Any] = {}

    def index(self, device: Any) -> int:
        """Return the ordinal that a device, a number or a name stands for."""
        found = device if isinstance(device, int) else getattr(device, "index", None)
        if isinstance(device, str):
            found = int(device.partition(":")[2] or self.current)
        return self.current if found is None else found

    def open(self, device: Any) -> None:
        """Open a context, once per process."""
        import fcntl  # noqa: PLC0415

        index = self.index(device)
        if index >= len(self.uuids):
            raise RuntimeError("CUDA error: invalid device ordinal")
        if index in self.held:
            return
        place = os.environ.get("SHIM_EXCLUSIVE", "")
        file = open(os.path.join(place, self.uuids[index]), "w") if place else None  # noqa: SIM115, PTH118, PTH123 - for good
        if file is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RuntimeError(BUSY) from None
        self.held[index] = file

    def set_device(self, device: Any) -> None:
        self.current = self.index(device)
        self.open(device)

    def properties(self, device: Any = None) -> SimpleNamespace:
        """What torch.cuda.get_device_properties returns."""
        self.open(device)
        major, minor = self.capability
        return SimpleNamespace(
            uuid=self.uuids[self.index(device)].removeprefix("GPU-"),
            name="a pretended GPU",
            major=major,
            minor=minor,
            total_memory=24 << 30,
        )


def turn_on(torch: ModuleType) -> None:
    """Change torch, right after it was imported."""
    _show(torch, Gpus())


def _show(torch: Any, gpus: Gpus) -> None:
    for name, what in {
        "is_available": lambda: bool(gpus.uuids),
        "device_count": lambda: len(gpus.uuids),
        "is_initialized": lambda: bool(gpus.held),
        "is_current_stream_capturing": lambda: False,
        "is_bf16_supported": lambda *_, **__: True,  # what torch says of every GPU since 2.3
        "current_device": lambda: gpus.current,
        "set_device": gpus.set_device,
        "get_device_capability": lambda _=None: gpus.capability,
        "get_device_properties": gpus.properties,
        "get_device_name": lambda _=None: "a pretended GPU",
    }.items():
        setattr(torch.cuda, name, what)
    for name in ("manual_seed", "manual_seed_all", "empty_cache", "synchronize"):
        setattr(torch.cuda, name, _nothing())
    if hasattr(torch, "accelerator"):  # since torch 2.6; a build for CUDA would ask the driver for a stream
        torch.accelerator.current_accelerator = lambda check_available=False: None
    _keep_on_cpu(torch, gpus)
    _compute_on_cpu(torch)


def _nothing() -> Callable[..., None]:
    """Return a function of its own: none may stand twice in dynamo's table of torch's functions."""
    return lambda *_, **__: None


def _keep_on_cpu(torch: Any, gpus: Gpus) -> None:
    """Let .to() and .cuda() open contexts and move nothing."""

    def is_cuda(word: Any) -> bool:
        return isinstance(word, str | torch.device) and torch.device(word).type == "cuda"

    def moved(original: Any) -> Any:
        def to(self: Any, *args: Any, **kwargs: Any) -> Any:
            for word in (*args, *kwargs.values()):
                if is_cuda(word):
                    gpus.open(word)
            args = tuple(torch.device("cpu") if is_cuda(word) else word for word in args)
            kwargs = {key: torch.device("cpu") if is_cuda(word) else word for key, word in kwargs.items()}
            return original(self, *args, **kwargs)

        return to

    def cuda(self: Any, device: Any = None, **_: Any) -> Any:
        gpus.open(device)
        return self

    for owner in (torch.nn.Module, torch.Tensor):
        owner.to = moved(owner.to)
        owner.cuda = cuda


def _compute_on_cpu(torch: Any) -> None:
    """Autocast, DDP and NCCL as the CPU has them."""
    autocast = torch.amp.autocast_mode.autocast
    enter, init = autocast.__init__, torch.distributed.init_process_group
    ddp = torch.nn.parallel.DistributedDataParallel
    wrap = ddp.__init__

    def autocast_init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        enter(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        init("gloo" if "nccl" in str(backend) else backend, *args, **kwargs)

    def ddp_init(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        kwargs |= {"device_ids": None, "output_device": None}
        wrap(self, module, **kwargs)

    autocast.__init__ = autocast_init
    torch.distributed.init_process_group = init_process_group
    ddp.__init__ = ddp_init
