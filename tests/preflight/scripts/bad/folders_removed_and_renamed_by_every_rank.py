import os
import shutil

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if os.path.exists("out"):
    shutil.rmtree("out")  # expect: R405 warning
os.makedirs("out/staging", exist_ok=True)
dist.barrier()
os.rename("out/staging", "out/final")  # expect: R405 warning
# target: capability=8.0 processes=4
