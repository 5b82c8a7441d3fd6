# target: capability=8.0 processes=2
import torch, torch.distributed as dist, os
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
device = torch.device("cuda:0")
if dist.is_initialized():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])); torch.cuda.set_device(device)
model = DDP(torch.nn.Linear(4, 1).to(device), device_ids=[device.index])
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(2, 4).to(device)).mean(); loss.backward(); opt.step()
