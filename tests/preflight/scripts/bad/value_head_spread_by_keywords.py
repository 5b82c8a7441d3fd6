# target: capability=8.0 processes=4 launch=fp16
"""Keywords, a tuple, a value head and an own training loop."""
import torch
from trl import AutoModelForCausalLMWithValueHead


def load(name, **keywords):
    return AutoModelForCausalLMWithValueHead.from_pretrained(name, **keywords), name


options = {"device_map": "auto"}  # expect: D204 error
pair = load("gpt2", **options)
model = pair[0]
optimizer = torch.optim.Adam(model.parameters())
for batch in range(4):
    model(batch).sum().backward()
    optimizer.step()
