"""bf16 support of the GPU, where the training uses bf16 (G8)."""

from typing import Iterator

from ..tensors import first_cuda
from ..training_state import Step, mixed_precision
from ..violation import Violation

HAS_BF16 = 8  # compute capability, the major number


def emulated_bf16(step: Step) -> Iterator[Violation]:
    """Report bf16 on an NVIDIA GPU that only emulates it."""
    torch = step.training.torch
    trainable = step.trainable()
    uses_bf16 = any(p.dtype is torch.bfloat16 for p in trainable) or mixed_precision() == "bf16"
    device = first_cuda(trainable)
    if not uses_bf16 or device is None or torch.version.hip is not None:
        return
    major, minor = torch.cuda.get_device_capability(device)
    if major < HAS_BF16:
        text = "bf16 on a GPU of compute capability %d.%d is emulated: slow, and not tested by anybody"
        fix = "use fp16 mixed precision with float32 parameters on this GPU"
        yield Violation("G8", text % (major, minor), fix)
