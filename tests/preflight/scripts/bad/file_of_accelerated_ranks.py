# target: processes=4 capability=8.0
import json

import torch
from accelerate import Accelerator
from diffusers import StableDiffusionPipeline
from transformers import AutoTokenizer

accelerator = Accelerator()
with open("config.json", "w") as file:  # expect: R405 warning
    json.dump({"lr": 0.1}, file)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(10):
    accelerator.backward(model(torch.ones(4, 4)).sum())
    optimizer.step()
    optimizer.zero_grad()
pipeline = StableDiffusionPipeline.from_pretrained("base", unet=accelerator.unwrap_model(model))
pipeline.save_pretrained("out")  # expect: R405 warning
if accelerator.is_main_process:
    pipeline.save_pretrained("out")
AutoTokenizer.from_pretrained("base").save_pretrained("out")
