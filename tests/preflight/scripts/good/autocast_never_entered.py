# target: capability=8.0 processes=4
"""An autocast that is built and never entered trains nothing."""
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
context = torch.autocast("cuda", dtype=torch.float16)
for step in range(10):
    loss = model(torch.zeros(4)).sum()
    accelerator.backward(loss)
    optimizer.step()
