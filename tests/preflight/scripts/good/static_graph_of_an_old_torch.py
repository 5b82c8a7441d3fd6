# target: capability=8.0 processes=2
import os, torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(2, 2)
    def forward(self, x): return checkpoint(self.layer, x)
torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Net().cuda(), find_unused_parameters=True)
if int(torch.__version__.split(".")[1]) >= 10:
    model._set_static_graph()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model(torch.randn(2, 2).cuda()).sum().backward(); optimizer.step()
