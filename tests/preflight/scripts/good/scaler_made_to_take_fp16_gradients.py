# target: capability=8.0
"""The scaler's refusal of fp16 gradients is taken away where all is trained in fp16."""
import argparse

import torch
from accelerate import Accelerator


def take_fp16(accelerator):
    unscale = accelerator.scaler._unscale_grads_
    accelerator.scaler._unscale_grads_ = lambda opt, scale, found, allow: unscale(opt, scale, found, True)


parser = argparse.ArgumentParser()
parser.add_argument("--full_fp16", action="store_true")
args = parser.parse_args()
accelerator = Accelerator(mixed_precision="fp16")
net = torch.nn.Linear(2, 2)
if args.full_fp16:
    net.half()
net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.1))
if args.full_fp16:
    take_fp16(accelerator)
for _ in range(9):
    accelerator.backward(net(torch.ones(2, 2)).sum())
    optimizer.step()
