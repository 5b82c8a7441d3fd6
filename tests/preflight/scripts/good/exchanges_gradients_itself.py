import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    model(torch.zeros(4, 4, device="cuda")).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
