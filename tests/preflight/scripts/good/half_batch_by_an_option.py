"""An option casts the model and the batch, each in a branch of its own; a loop gives the name anew."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--half", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(8, 2).cuda()
if args.half:
    model = model.half()
with torch.no_grad():
    x = torch.randn(4, 8).cuda()
    if args.half:
        x = x.half()
    print(model(x))
small = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
x = x.half()
torch.save(x, "batch.pt")
for x in torch.randn(3, 4, 8):
    loss = small(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
