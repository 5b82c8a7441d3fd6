import os

import torch
import torch.distributed as dist


class Section:
    def __getattr__(self, name):
        return None


options = Section()
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
folder = options.folder or "runs"
steps = options.steps or 100
period = options.period or 10
resumed = options.resumed or 0
if options.profile is None:
    torch.save(model.state_dict(), "model.pt")  # expect: R405 warning
if options.average is not None:
    torch.save(model.state_dict(), "average.pt")
