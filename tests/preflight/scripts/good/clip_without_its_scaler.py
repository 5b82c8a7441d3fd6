# target: capability=8.0 processes=2
import argparse
from data import loader
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--precision", type=str)
args = parser.parse_args()


def backward(loss, scaler):
    if scaler:
        scaler.scale(loss).backward()
    else:
        loss.backward()


def epoch(model, optimizer, scaler):
    for batch in loader():
        backward(model(batch).mean(), scaler)
        if scaler is not None:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def half_epoch(model, optimizer, scaler, precision):
    for batch in loader():
        loss = model(batch).mean()
        if precision != "amp":
            loss.backward()
        else:
            scaler.scale(loss).backward()
        if not precision != "amp":
            scaler.step(optimizer)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda") if args.precision == "amp" else None
epoch(model, optimizer, scaler)
half_epoch(model, optimizer, scaler, args.precision)
scaler = torch.amp.GradScaler("cuda")
for batch in loader():
    scaler.scale(model(batch).mean()).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 1.0)
    scaler.step(optimizer)
    scaler.update()
