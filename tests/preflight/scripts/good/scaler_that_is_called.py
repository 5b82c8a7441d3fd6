# target: args=--amp
import argparse
from contextlib import suppress

import timm
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
autocast, loss_scaler = suppress, "none"
if args.amp:
    autocast = torch.cuda.amp.autocast
    loss_scaler = timm.utils.NativeScaler()
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for samples in range(3):
    with autocast():
        loss = model(samples).sum()
    if isinstance(loss_scaler, timm.utils.NativeScaler):
        loss_scaler(loss, optimizer, parameters=model.parameters())
    else:
        loss.backward()
        optimizer.step()
