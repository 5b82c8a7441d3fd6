import os

import torch
import torch.distributed as dist


def set_variable(name, value):
    if name in os.environ:
        print("kept")
    else:
        os.environ[name] = value


set_variable("CUDA_VISIBLE_DEVICES", "0,1")
set_variable("MASTER_PORT", "29500")
if os.environ.get("MASTER_ADDR") is None:
    os.environ["MASTER_ADDR"] = "localhost"
if not os.getenv("MASTER_ADDR"):
    os.environ["MASTER_ADDR"] = "localhost"
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
dist.init_process_group("nccl", init_method=f"tcp://{address}:{port}")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
