# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torchvision.models import resnet18

from data import Images

accelerator = Accelerator()
model = resnet18()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Images("train"), shuffle=True))
for x, y in loader:
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
    optimizer.step()
if accelerator.is_main_process:
    model.eval()
    with torch.no_grad():
        for x, y in DataLoader(Images("test")):
            print(accelerator.unwrap_model(model)(x.to(accelerator.device)).argmax(1))
accelerator.wait_for_everyone()
