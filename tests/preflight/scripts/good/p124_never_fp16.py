"""None of the precisions that this script may get has a gradient scaler."""

import argparse

import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="large")
args = parser.parse_args()
precision = "no" if args.kind == "tiny" else ("bf16" if args.kind == "small" else "fp8")
accelerator = Accelerator(mixed_precision=precision)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(3):
    model(torch.zeros(4, 1)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
