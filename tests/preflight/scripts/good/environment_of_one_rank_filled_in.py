# target: capability=8.0 processes=4
import os
import torch

alone = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
if all(os.environ.get(name, value) == value for (name, value) in alone.items()):
    os.environ.update(alone)
if not any(os.environ.get(name) != "1" for name in ("WORLD_SIZE",)):
    os.environ["RANK"] = "0"
torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
