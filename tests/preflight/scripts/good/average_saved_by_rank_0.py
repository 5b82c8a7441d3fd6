import copy

import torch
from accelerate import Accelerator, DeepSpeedPlugin

accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin("ds.json"))
model = torch.nn.Linear(4, 4)
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    accelerator.backward(model(batch).sum())
    optimizer.step()
if accelerator.is_main_process:
    accelerator.save_model(average, "average")
