import torch
from torchvision.models import resnet50
from data import loader, val_loader
model = resnet50().cuda()
criterion = torch.nn.CrossEntropyLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    model.train()
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    val_loss = 0
    for x, y in val_loader:
        with torch.no_grad():
            val_loss += criterion(model(x.cuda()), y.cuda())
    print(epoch, val_loss / len(val_loader))
