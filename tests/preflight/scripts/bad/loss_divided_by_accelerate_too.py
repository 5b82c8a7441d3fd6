# target: capability=8.0 processes=2
import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Pairs

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=8)
args = parser.parse_args()
accelerator = Accelerator(gradient_accumulation_steps=args.accumulate)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Pairs(), shuffle=True))
for batch in loader:
    with accelerator.accumulate(model):
        out = model(batch)
        loss = out.sum() / args.accumulate  # expect: P146 warning
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
