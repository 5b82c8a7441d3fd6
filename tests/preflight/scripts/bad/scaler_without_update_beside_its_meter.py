# target: processes=1 capability=8.0
import torch
from timm.utils import AverageMeter

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
scaler_meter = AverageMeter()
for _ in range(10):
    scaler.scale(model(torch.ones(4, 4).cuda()).sum()).backward()
    scaler.step(optimizer)  # expect: P128 warning
    optimizer.zero_grad()
    scaler_meter.update(scaler.state_dict()["scale"])
