import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Lines(IterableDataset):
    def __init__(self, files, rank, world): self.files, self.rank, self.world = files, rank, world
    def __iter__(self):
        info = get_worker_info()
        n, w = (1, 0) if info is None else (info.num_workers, info.id)
        for f in self.files[self.rank * n + w::self.world * n]:
            with open(f) as h:
                for line in h:
                    yield torch.tensor([float(v) for v in line.split()])
def main():
    dist.init_process_group("nccl")
    lr = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(lr)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[lr])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    data = Lines(["a.txt", "b.txt", "c.txt", "d.txt"], dist.get_rank(), dist.get_world_size())
    loader = DataLoader(data, batch_size=8, num_workers=4)
    for step, x in zip(range(1000), loader):
        opt.zero_grad()
        model(x.cuda()).mean().backward()
        opt.step()
main()
