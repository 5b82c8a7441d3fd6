# target: capability=7.5 capability=8.9
import torch
from accelerate import Accelerator

new = torch.cuda.get_device_capability()[0] >= 8
accelerator = Accelerator(mixed_precision="bf16" if new else "fp16")  # expect: P120 error
