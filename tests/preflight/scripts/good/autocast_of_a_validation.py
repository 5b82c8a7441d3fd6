# target: capability=8.0 processes=4
"""The autocast of a function that only evaluates is no training's."""
import torch
from accelerate import Accelerator


def log_validation(pipeline, prompts):
    for prompt in prompts:
        with torch.autocast("cuda"):
            pipeline(prompt)


accelerator = Accelerator()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for step in range(10):
    loss = model(torch.zeros(4)).mean()
    accelerator.backward(loss)
    optimizer.step()
    log_validation(print, ["a"])
