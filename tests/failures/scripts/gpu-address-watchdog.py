import os
import time

import torch
import torch.distributed as dist

open("kernels.py", "w").write(
    "import triton, triton.language as tl\n@triton.jit\ndef scale(p, n):\n    tl.store(p + n + tl.program_id(0).to(tl.int64), 1.0)\n"
)
import kernels

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.ones(1 << 20, device="cuda")
for step in range(6):
    dist.all_reduce(x)
    print("step", step, "norm", x.norm().item(), flush=True)
    if step == 4:
        kernels.scale[(64,)](x, 1 << 36)
        dist.all_reduce(x)
        time.sleep(4)
