import os
import shutil

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
scratch = f"scratch/{dist.get_rank()}"
shutil.rmtree(scratch, ignore_errors=True)
shutil.rmtree("cache", onerror=lambda function, path, error: None)
if os.path.exists(scratch):
    shutil.rmtree(scratch)
if dist.get_rank() == 0:
    shutil.rmtree("out")
    os.makedirs("out/staging", exist_ok=True)
    os.rename("out/staging", "out/final")
dist.barrier()
# target: capability=8.0 processes=4
