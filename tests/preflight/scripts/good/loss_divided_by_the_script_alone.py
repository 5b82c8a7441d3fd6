# target: capability=8.0 processes=2
import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Pairs

parser = argparse.ArgumentParser()
parser.add_argument("--gradient_accumulation_steps", type=int, default=8)
args = parser.parse_args()
accelerator = Accelerator()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Pairs(), shuffle=True))
for number, batch in enumerate(loader):
    loss = model(batch).sum() / args.gradient_accumulation_steps
    accelerator.backward(loss)
    if (number + 1) % args.gradient_accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
