# target: processes=4 capability=8.0
import os, torch, torch.distributed as dist, torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

class Hooks(list):
    def fire(self, name, *a):
        for h in self:
            getattr(h, name)(*a)

class Saver:
    def after_epoch(self, model, epoch):
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), f"e{epoch}.pt")
            dist.barrier()  # expect: R404 error

def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = DDP(torchvision.models.resnet18().cuda(), device_ids=[rank])
    hooks = Hooks()
    hooks.append(Saver())
    hooks.extend(())
    for epoch in range(3):
        hooks.fire("after_epoch", model, epoch)

main()
