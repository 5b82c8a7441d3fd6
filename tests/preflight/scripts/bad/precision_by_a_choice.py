# target: capability=8.0
"""fp16 is a choice of an option, and not its default: of names, of numbers, and of one that changes nothing."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--precision", type=int, choices=[32, 16], default=32)
parser.add_argument("--amp-dtype", choices=["bf16", "fp16"], default="bf16")
parser.add_argument("--save-as", choices=["fp32", "fp16"], default="fp16")
args = parser.parse_args()
model = torch.nn.Linear(4, 4).cuda()
if args.precision == 16:
    model.half()  # expect: P102 warning
optimizer = torch.optim.AdamW(model.parameters())
dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16}
other = torch.nn.Linear(4, 4).cuda()
steps = torch.optim.AdamW(other.parameters())
for batch in range(10):
    model(torch.zeros(2, 4).cuda()).sum().backward()
    optimizer.step()
    with torch.autocast("cuda", dtype=dtypes[args.amp_dtype]):  # expect: P114 info
        loss = other(torch.zeros(2, 4).cuda()).sum()
    loss.backward()
    steps.step()
