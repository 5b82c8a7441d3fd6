import torch
import torchvision
from data import loader

model = torchvision.models.resnet50(weights="DEFAULT")
for p in model.parameters():
    p.requires_grad = False
model.fc = torch.nn.Linear(2048, 20)
model = model.cuda()
optimizer = torch.optim.Adam(model.fc.parameters(), lr=1e-3)
criterion = torch.nn.CrossEntropyLoss()
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
