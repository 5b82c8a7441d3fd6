"""DeepSpeed is an option that this launch does not give, and without it rank 0 saves alone."""
# target: capability=8.0 processes=4

import argparse

import torch
from accelerate import Accelerator, DeepSpeedPlugin

parser = argparse.ArgumentParser()
parser.add_argument("--zero", default=None)
args = parser.parse_args()
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=args.zero) if args.zero else None)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(range(64), batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(batch).sum())
    optimizer.step()
    optimizer.zero_grad()
if accelerator.is_main_process:
    accelerator.save_state("out")
