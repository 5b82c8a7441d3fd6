from accelerate import Accelerator
Accelerator(cpu=True)
Accelerator(cpu=True, mixed_precision="bf16")
