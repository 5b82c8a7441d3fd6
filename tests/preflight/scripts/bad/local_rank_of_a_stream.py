import os, torch, torch.distributed as dist
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
ds = load_dataset("text", data_files="x.txt", streaming=True)["train"]
ds = split_dataset_by_node(ds, rank=local, world_size=dist.get_world_size())  # expect: R413 warning
loader = DataLoader(ds, batch_size=8)
model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local])
opt = torch.optim.SGD(model.parameters(), 0.1)
for b in loader:
    opt.zero_grad()
    model(torch.randn(8, 4).cuda()).mean().backward()
    opt.step()
