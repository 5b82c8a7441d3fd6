import torch
import torch.distributed as dist


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


dist.init_process_group("nccl", device_id=torch.device("cuda"))
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    loss = model(torch.zeros(4, 4)).sum()
    loss.backward()
    average(model)
    optimizer.step()
    dist.reduce(loss, 0)
