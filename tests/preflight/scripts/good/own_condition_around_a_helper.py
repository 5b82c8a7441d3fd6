import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torch.utils.data import TensorDataset
def build(): return TensorDataset(torch.randn(100, 4), torch.randn(100, 1))
def sync_metrics(total, n):
    t = torch.tensor([total, n], device="cuda")
    dist.all_reduce(t)
    return (t[0] / t[1]).item()
def main():
    dist.init_process_group("nccl")
    lr = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(lr)
    data = build(); sampler = DistributedSampler(data); loader = DataLoader(data, 8, sampler=sampler)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[lr])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        total = 0.0; n = 0
        for x, y in loader:
            opt.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()); loss.backward()
            opt.step()
            total += loss.item(); n += 1
        mean = sync_metrics(total, n)
        if mean < 0.1:
            print("good", mean)
main()
