# target: capability=7.5 launch=fp16 args=
"""What an except clause does to the model is what later turns of the loop meet."""

import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    try:
        loss = model(batch).sum()
        accelerator.backward(loss)
    except torch.cuda.OutOfMemoryError:  # expect: R404 warning
        model.half()  # expect: P101 warning
        continue
    optimizer.step()
