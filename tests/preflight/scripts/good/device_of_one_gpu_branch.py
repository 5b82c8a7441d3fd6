# target: capability=8.0 processes=2
import torch, torch.distributed as dist, os
from torch.nn.parallel import DistributedDataParallel as DDP
if torch.cuda.device_count() == 1:
    device = torch.device("cuda:0")
elif not torch.cuda.is_available():
    device = torch.device("cpu")
else:
    dist.init_process_group("nccl"); device = torch.device("cuda", int(os.environ["LOCAL_RANK"])); torch.cuda.set_device(device)
model = torch.nn.Linear(4, 1).to(device)
if dist.is_initialized():
    model = DDP(model, device_ids=[device.index])
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(2, 4).to(device)).mean(); loss.backward(); opt.step()
