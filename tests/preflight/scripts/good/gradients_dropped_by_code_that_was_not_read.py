import torch
from lab.steps import begin
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(torch.ones(64, 4), batch_size=8):
    begin(optimizer)
    model(batch.cuda()).sum().backward()
    optimizer.step()
