import torch
from torch.cuda.amp import GradScaler, autocast
from torchvision.models import resnet18
model = resnet18().cuda().half()  # expect: P101 error
opt = torch.optim.Adam(model.parameters())
scaler = GradScaler()
for x, y in get_loader():
    with autocast():
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
