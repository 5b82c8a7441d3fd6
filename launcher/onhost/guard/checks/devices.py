"""Devices of the parameters, compared with the GPU that the plan gave this rank (G6), and their bf16 (G8)."""

import json
import os
from typing import Iterator

from ..context import GuardContext
from ..reporter import Violation
from ..tensors import find_first_cuda
from ..training_state import Step, read_mixed_precision

HAS_BF16 = 8  # compute capability, the major number


def wrong_devices(step: Step) -> Iterator[Violation]:
    """Report parameters that are on the CPU, or on the GPU of another rank."""
    planned = _planned_gpu(step.training.place)
    devices = {p.device for p in step.list_trainable()}
    if planned is None or not devices:
        return
    if all(device.type == "cpu" for device in devices):
        text = "all trainable parameters are on the CPU, while this rank was given %s"
        yield Violation("G6", text % planned, "move the model to accelerator.device, not to a fixed device")
    for device in sorted((d for d in devices if d.type == "cuda"), key=str):
        uuid = step.training.tools.gpu_uuid(device)
        if uuid and uuid != planned:
            text = "trainable parameters are on %s (%s), while this rank was given %s"
            fix = "use accelerator.device instead of a fixed cuda:N, and no device_map='auto'"
            yield Violation("G6", text % (device, uuid, planned), fix, True)


def emulated_bf16(step: Step) -> Iterator[Violation]:
    """Report bf16 on an NVIDIA GPU that only emulates it."""
    torch = step.training.torch
    trainable = step.list_trainable()
    uses_bf16 = any(p.dtype is torch.bfloat16 for p in trainable) or read_mixed_precision() == "bf16"
    device = find_first_cuda(trainable)
    if not uses_bf16 or device is None or torch.version.hip is not None:
        return
    major, minor = torch.cuda.get_device_capability(device)
    if major < HAS_BF16:
        text = "bf16 on a GPU of compute capability %d.%d is emulated: slow, and not tested by anybody"
        fix = "use fp16 mixed precision with float32 parameters on this GPU"
        yield Violation("G8", text % (major, minor), fix)


def _planned_gpu(place: GuardContext) -> str | None:
    """Return the UUID that the plan gave this rank, None for a CPU rank or when it is unknown."""
    try:
        with open(os.path.join(place.run_dir, "expected.json"), "rb") as file:
            found = json.loads(file.read())["gpus"][place.local_rank]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, str) else None
