# target: processes=4
import argparse

import torch
from timm import utils
from torch import nn

args = argparse.ArgumentParser().parse_args()
args.device = "cuda:0"
utils.init_distributed_device(args)
model = nn.Linear(4, 4).to(args.device)
optimizer = torch.optim.AdamW(model.parameters())
for batch in range(3):
    model(batch.to(args.device)).sum().backward()
    optimizer.step()
