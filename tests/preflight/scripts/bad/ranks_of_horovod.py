# target: capability=8.0 processes=4
import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, TensorDataset

hvd.init()
torch.cuda.set_device(hvd.local_rank())
model = torch.nn.Linear(4, 4).cuda()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
loader = DataLoader(TensorDataset(torch.zeros(64, 4)), 8, shuffle=True)  # expect: R401 warning
for epoch in range(3):
    for (batch,) in loader:
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if hvd.rank() == 0:
        print(hvd.allreduce(loss))  # expect: R404 error
    torch.save(model.state_dict(), "model.pt")  # expect: R405 warning
