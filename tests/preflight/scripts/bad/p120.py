import torch
from accelerate import Accelerator
major, minor = torch.cuda.get_device_capability()
precision = "bf16" if major >= 8 else "fp16"
acc = Accelerator(mixed_precision=precision)  # expect: P120 info
