# target: capability=8.0 processes=2
import os

import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

os.environ["ACCELERATE_MIXED_PRECISION"] = "fp16"
accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)  # expect: P101 error
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(input_ids=torch.ones(1, 4)).loss)
optimizer.step()
