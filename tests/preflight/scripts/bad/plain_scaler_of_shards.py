import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = FSDP(torch.nn.Linear(4, 4))
optimizer = torch.optim.AdamW(model.parameters())
plain = torch.amp.GradScaler("cuda")  # expect: R409 warning
sharded = ShardedGradScaler()
whole = torch.nn.Linear(4, 4).cuda()
of_whole = torch.optim.AdamW(whole.parameters())
for batch in range(3):
    for scaler, stepped, net in ((plain, optimizer, model), (sharded, optimizer, model), (plain, of_whole, whole)):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).sum()
        scaler.scale(loss).backward()
        scaler.step(stepped)
        scaler.update()
