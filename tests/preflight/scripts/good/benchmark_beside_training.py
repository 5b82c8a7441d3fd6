# target: capability=8.0 processes=2
"""Without a guard: what the program calls trains, and the benchmark is started by hand."""

import argparse

import torch
from accelerate import Accelerator


def bench():
    torch.nn.Linear(4, 4).half().to("cuda:0")(torch.ones(1, 4, device="cuda:0").half())


def train():
    accelerator = Accelerator(mixed_precision="fp16")
    model = torch.nn.Linear(4, 4)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    accelerator.backward(model(torch.ones(1, 4, device=accelerator.device)).mean())
    optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["train", "bench"], default="train")
args = parser.parse_args()
if args.mode == "train":
    train()
elif args.mode == "bench":
    bench()
