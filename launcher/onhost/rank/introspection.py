"""Settings of the training libraries in the script, read from the modules that it has imported."""

import functools
import os
import sys
from types import ModuleType
from typing import Any

from .context import RankContext, run_safely
from .import_hooks import hook_call, hook_imports


class TrainingInspector:
    """Reporter of world, rank, device and precision, once the training libraries have set them up."""

    def __init__(self, place: RankContext) -> None:
        self.place = place
        self.last: dict[str, object] = {}
        # Of the first model on a GPU that DistributedDataParallel has wrapped; the only GPU of a lone rank.
        self.device: Any = None
        self.settled = False  # accelerate constructs its states again and again in a training step

    def install(self) -> None:
        """Watch the modules of the libraries for their import."""
        hook_imports(
            {
                "accelerate.state": self._accelerate_imported,
                "torch.distributed.distributed_c10d": self._distributed_imported,
                "torch.nn.parallel.distributed": self._parallel_imported,
            },
            self.place.report,
        )
        if self.place.world_size == 1:
            hook_imports({"torch.cuda": self._cuda_imported}, self.place.report)

    def _accelerate_imported(self, module: ModuleType) -> None:
        hook_call(module.PartialState, "__init__", self._look, self.place.report)
        hook_call(module.AcceleratorState, "__init__", self._look, self.place.report)

    def _distributed_imported(self, module: ModuleType) -> None:
        hook_call(module, "init_process_group", self._look, self.place.report)

    def _parallel_imported(self, module: ModuleType) -> None:
        """Take the device of the model that DistributedDataParallel wraps, for scripts without accelerate."""
        hook_call(module.DistributedDataParallel, "__init__", self._look_at, self.place.report)

    def _cuda_imported(self, module: ModuleType) -> None:
        """Look once CUDA has started: a script of one rank needs neither accelerate nor torch.distributed.

        Tensors that C++ makes on a GPU look `_lazy_init` up in the module too.
        """
        start = module._lazy_init  # noqa: SLF001 - torch has no public hook for it

        @functools.wraps(start)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            start(*args, **kwargs)
            if module.is_initialized():  # it returns early where another thread is starting CUDA
                if module._lazy_init is wrapper:  # noqa: SLF001 - others may have wrapped it since
                    module._lazy_init = start  # type: ignore[attr-defined]  # noqa: SLF001
                run_safely("look at the GPU", self.place.report, functools.partial(self._look_at_gpu, module))

        module._lazy_init = wrapper  # type: ignore[attr-defined]  # noqa: SLF001

    def _look_at_gpu(self, cuda: ModuleType) -> None:
        if cuda.device_count() == 1 and self.device is None:
            self.device = sys.modules["torch"].device("cuda", 0)
            self._look()

    def _look_at(self, model: Any) -> None:
        first = next(model.parameters(), None)
        if first is not None and first.device.type == "cuda" and self.device is None:
            self.device = first.device
            self._look()

    def _look(self, *_: object) -> None:
        """Report the known settings, if they differ from the last report."""
        if self.settled:
            return
        seen: dict[str, object] = {}
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            seen["world_size"] = distributed.get_world_size()
            seen["world_rank"] = distributed.get_rank()
            seen["backend"] = str(distributed.get_backend())
        if self.device is not None:
            seen["device"] = str(self.device)
            seen["gpu"] = read_gpu_uuid(self.device)
        state = sys.modules.get("accelerate.state")
        if state is not None:
            seen.update(self._accelerate_state(state))
        if seen and seen != self.last:
            self.last = seen
            self.place.report("state", **seen)

    def _accelerate_state(self, module: ModuleType) -> dict[str, object]:
        # The shared dictionaries themselves: constructing a state would call `_look` again.
        shared = module.PartialState._shared_state  # noqa: SLF001
        seen: dict[str, object] = {}
        if "num_processes" in shared and "process_index" in shared and shared.get("device") is not None:
            seen["world_size"] = shared["num_processes"]
            seen["world_rank"] = shared["process_index"]
            seen["device"] = str(shared["device"])
            seen["gpu"] = read_gpu_uuid(shared["device"])
        whole = module.AcceleratorState._shared_state  # noqa: SLF001
        if "_mixed_precision" in whole:
            state = object.__new__(module.AcceleratorState)
            state.__dict__ = whole
            seen["mixed_precision"] = state.mixed_precision
            self.settled = "device" in seen
        return seen


def read_gpu_uuid(device: Any) -> str:
    """Return the UUID of a CUDA device, "" when reading it would initialise CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or device is None or device.type != "cuda" or not torch.cuda.is_initialized():
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)  # torch >= 2.4
    if uuid is not None:
        text = str(uuid)
        return text if text.startswith(("GPU-", "MIG-")) else "GPU-" + text
    visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    index = device.index or 0
    return visible[index] if index < len(visible) and visible[index].startswith(("GPU-", "MIG-")) else ""
