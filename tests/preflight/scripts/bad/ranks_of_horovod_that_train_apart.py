# target: capability=8.0 processes=4
import horovod.torch as hvd
import torch

hvd.init()
torch.cuda.set_device(0)  # expect: D201 error
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
for epoch in range(3):
    loss = model(torch.zeros(4, 4).cuda()).sum()
    loss.backward()
    optimizer.step()  # expect: R406 warning
