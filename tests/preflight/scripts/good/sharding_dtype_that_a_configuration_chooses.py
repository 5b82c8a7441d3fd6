# target: capability=7.0 processes=2
import json
import os

import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
with open("config.json") as file:
    config = json.load(file)
policy = MixedPrecision(param_dtype=DTYPES[config["dtype"]])
model = FSDP(torch.nn.Linear(4, 4).cuda(), mixed_precision=policy)
