# target: capability=8.0 processes=4
import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

hvd.init()
torch.cuda.set_device(hvd.local_rank())
model = torch.nn.Linear(4, 4).cuda()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
data = TensorDataset(torch.zeros(64, 4))
sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for (batch,) in DataLoader(data, 8, sampler=sampler):
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    total = hvd.allreduce(loss)
    if hvd.rank() == 0:
        print(total)
        torch.save(model.state_dict(), "model.pt")
