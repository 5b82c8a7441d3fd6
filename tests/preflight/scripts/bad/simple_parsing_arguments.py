# target: capability=8.0 processes=2
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from simple_parsing import ArgumentParser
from transformers import AutoModelForCausalLM


@dataclass
class Run:
    dtype: str = "bfloat16"
    precision: str = "fp16"


parser = ArgumentParser()
parser.add_arguments(Run, dest="run")
run = parser.parse_args().run
accelerator = Accelerator(mixed_precision=run.precision)
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=getattr(torch, run.dtype))  # expect: P106 error
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(input_ids=torch.ones(1, 4)).loss)
optimizer.step()
