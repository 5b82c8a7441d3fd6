# target: capability=8.0 processes=4
import os

import deepspeed
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, batch):
        return self.layer(batch)


dist.init_process_group("nccl")
rank = dist.get_rank() if dist.is_initialized() else 0
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
first = rank in (0, -1) and "QUIET" not in os.environ
shared = torch.nn.parallel.DistributedDataParallel(Net().cuda())
optimizer = torch.optim.AdamW(shared.parameters())
alone = Net().cuda()
of_alone = torch.optim.AdamW(alone.parameters())
sharded = FSDP(Net())
by_layer = Net()
fully_shard(by_layer)
of_layers = torch.optim.AdamW(by_layer.parameters())
engine, *_ = deepspeed.initialize(model=Net(), config="ds.json")
for batch in range(3):
    engine.backward(engine(batch))
    engine.step()
    loss = shared(batch).sum()
    if rank == 0:
        loss.backward()
        optimizer.step()  # expect: R404 error
        alone(batch).sum().backward()
        of_alone.step()
    loss = by_layer(batch).sum()
    if rank == 0:
        loss.backward()
        of_layers.step()  # expect: R404 error
        by_layer.state_dict()
    if first:
        print(sharded(batch))  # expect: R404 error
        print(by_layer(batch))  # expect: R404 error
        print(alone(batch))
    if engine.global_rank == 0:
        engine.save_checkpoint("out")  # expect: R404 error
        engine.save_16bit_model("out")  # expect: R404 warning
        engine.load_checkpoint("out")  # expect: R404 warning
engine.save_checkpoint("last")
