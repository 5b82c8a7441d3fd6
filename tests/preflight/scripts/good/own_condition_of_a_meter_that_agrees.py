import os, math, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
def build(): return TensorDataset(torch.randn(100, 4), torch.randn(100, 1))
def save(model, path):
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), path)
class Meter:
    def __init__(self): self.s = 0.; self.n = 0
    def update(self, v): self.s += v; self.n += 1
    def merge(self):
        t = torch.tensor([self.s, self.n], device='cuda'); dist.all_reduce(t); self.s, self.n = t.tolist()
    @property
    def avg(self): return self.s / self.n

def main():
    dist.init_process_group("nccl")
    lr = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(lr)
    data = build(); sampler = DistributedSampler(data); loader = DataLoader(data, 8, sampler=sampler)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[lr])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    best = 1e9; stop = False; start = time.time()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        total = 0.0; n = 0
        for step, (x, y) in enumerate(loader):
            opt.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()); loss.backward()
            opt.step()
            total += loss.item(); n += 1
        m = Meter(); m.update(total); m.merge()
        if m.avg < best:
            best = m.avg
            save(model, 'x')
main()
