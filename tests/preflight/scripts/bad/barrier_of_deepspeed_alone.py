# target: capability=8.0 processes=4
"""deepspeed.comm has the functions of torch.distributed."""

import deepspeed
import torch
from deepspeed import comm as dist


def is_first() -> bool:
    return dist.get_rank() == 0


deepspeed.init_distributed()
engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(3, 3), config="ds.json")
if is_first():
    deepspeed.comm.barrier()  # expect: R404 error
dist.barrier()
for batch in range(3):
    engine.backward(engine(batch).sum())
    engine.step()
