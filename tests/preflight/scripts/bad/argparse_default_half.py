import argparse

import torch
from accelerate import Accelerator
from transformers import AutoModel


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16", "float32"])
    parser.add_argument("--mixed_precision", default="fp16")
    return parser.parse_args()


args = parse()
accelerator = Accelerator(mixed_precision=args.mixed_precision)
model = AutoModel.from_pretrained("m", torch_dtype=getattr(torch, args.dtype))  # expect: P101 error
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(10):
    loss = model(batch).loss
    accelerator.backward(loss)
    optimizer.step()
