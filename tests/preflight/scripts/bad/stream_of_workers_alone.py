import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Lines(IterableDataset):
    def __init__(self, files): self.files = files
    def __iter__(self):
        info = get_worker_info()
        files = self.files if info is None else self.files[info.id::info.num_workers]
        for f in files:
            with open(f) as h:
                for line in h:
                    yield torch.tensor([float(v) for v in line.split()])
def main():
    dist.init_process_group("nccl")
    lr = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(lr)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[lr])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(Lines(["a.txt", "b.txt", "c.txt", "d.txt"]), batch_size=8, num_workers=4)  # expect: R401 warning
    for step, x in zip(range(1000), loader):
        opt.zero_grad()
        model(x.cuda()).mean().backward()
        opt.step()
main()
