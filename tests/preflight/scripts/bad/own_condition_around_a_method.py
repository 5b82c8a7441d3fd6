import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torch.utils.data import TensorDataset
def build(): return TensorDataset(torch.randn(100, 4), torch.randn(100, 1))
class Trainer:
    def __init__(self, lr):
        data = build(); self.sampler = DistributedSampler(data); self.loader = DataLoader(data, 8, sampler=self.sampler)
        self.model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[lr])
        self.opt = torch.optim.SGD(self.model.parameters(), 0.1)
    def save(self, path):
        dist.barrier()  # expect: R404 warning
        if dist.get_rank() == 0:
            torch.save(self.model.module.state_dict(), path)
        dist.barrier()  # expect: R404 warning
    def fit(self):
        best = 1e9
        for epoch in range(3):
            self.sampler.set_epoch(epoch)
            running = 0.0
            for x, y in self.loader:
                self.opt.zero_grad()
                loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda()); loss.backward()
                self.opt.step()
                running += loss.item()
            if running < best:
                best = running
                self.save("best.pt")
def main():
    dist.init_process_group("nccl")
    lr = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(lr)
    Trainer(lr).fit()
main()
