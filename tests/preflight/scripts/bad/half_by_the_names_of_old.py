# target: capability=8.0 processes=1
import torch

first = torch.nn.Linear(4, 4).cuda()
second = torch.nn.Module.half(torch.nn.Linear(4, 4).cuda())  # expect: P101 error
first.type(torch.cuda.HalfTensor)  # expect: P101 error
groups, rest = [], []
for name, parameter in first.named_parameters():
    (rest if name.endswith("bias") else groups).append(parameter)
optimizer = torch.optim.AdamW([{"params": groups}, {"params": rest}, {"params": second.parameters()}])
scaler = torch.amp.GradScaler("cuda")
scaler.scale(second(first(torch.ones(4, 4).cuda().half())).sum()).backward()
scaler.step(optimizer)
scaler.update()
