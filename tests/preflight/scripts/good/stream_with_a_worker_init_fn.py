import glob, itertools, math, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class D(IterableDataset):
    def __init__(self, files, rank=0, world=1):
        self.files, self.rank, self.world = files, rank, world
    def __iter__(self):
        for f in self.files[self.rank::self.world]:
            with open(f) as h:
                for line in h:
                    yield torch.tensor([float(v) for v in line.split()])

def init(worker):
    info = get_worker_info(); info.dataset.files = info.dataset.files[info.id::info.num_workers]

def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    lr = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(lr)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[lr])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    def step(x):
        opt.zero_grad(); model(x.cuda()).mean().backward(); opt.step()
    loader = DataLoader(D(['a','b'], rank, world), batch_size=8, num_workers=4, worker_init_fn=init)
    for number, x in enumerate(loader):
        opt.zero_grad(); model(x.cuda()).mean().backward(); opt.step()
        if number == 99: break
main()
