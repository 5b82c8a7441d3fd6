import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler
class Groups(BatchSampler):
    def __init__(self, sampler, size):
        self.sampler, self.size = sampler, size
    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.size:
                yield batch
                batch = []
def halve(model, scaler):
    total = 0.0
    for parameter in model.parameters():
        parameter.grad.div_(2)
        total += parameter.grad.norm()
    print(total)
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dataset = torch.utils.data.TensorDataset(torch.randn(64, 4))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_sampler=Groups(sampler, 4))
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for (batch,) in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = model(batch.cuda()).sum()
            scaler.scale(loss).backward()
            halve(model, scaler)
            scaler.step(optimizer)
            scaler.update()
    dist.destroy_process_group()
main()
