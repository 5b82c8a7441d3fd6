from torch.cuda import is_bf16_supported
from accelerate import Accelerator
acc = Accelerator(mixed_precision="bf16" if is_bf16_supported() else "fp16")  # expect: P131 info, P121 info
