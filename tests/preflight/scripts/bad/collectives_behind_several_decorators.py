# target: processes=4 capability=8.0
import functools, os, torch, torch.distributed as dist, time, torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

def on_rank(which):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*a, **k):
            if dist.get_rank() == which:
                return fn(*a, **k)
        return inner
    return wrap

def log_call(name):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*a, **k):
            print(name)
            return fn(*a, **k)
        return inner
    return wrap

@torch.no_grad()
@log_call("save")
@on_rank(0)
def save(model, path):
    torch.save(model.module.state_dict(), path)
    dist.barrier()  # expect: R404 error

class T:
    def __init__(self, model): self.model = model
    @on_rank(0)
    @torch.no_grad()
    def dump(self):
        dist.barrier()  # expect: R404 error

class OnlyFirst:
    def __init__(self, fn): self.fn = fn
    def __call__(self, *a, **k):
        if dist.get_rank() == 0:
            return self.fn(*a, **k)

@functools.lru_cache
@OnlyFirst
def third():
    dist.all_reduce(torch.ones(1).cuda())  # expect: R404 error

def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = DDP(torchvision.models.resnet18().cuda(), device_ids=[rank])
    save(model, "a.pt")
    T(model).dump()
    third()

main()
