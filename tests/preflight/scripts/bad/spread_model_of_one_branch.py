# target: capability=8.0 processes=4
"""A map that one of two branches gives is no fault of the other; where both give one, there is no doubt."""

import sys

import torch
from transformers import AutoModel, AutoModelForCausalLM

options = {"trust_remote_code": True}
if len(sys.argv) > 2:
    options["device_map"] = "auto"  # expect: D204 warning
model = AutoModelForCausalLM.from_pretrained("x", **options)
if len(sys.argv) > 3:
    other = AutoModelForCausalLM.from_pretrained("x", device_map="auto")  # expect: D204 error
elif len(sys.argv) > 4:
    raise SystemExit(2)
else:
    other = AutoModel.from_pretrained("x", device_map="auto")  # expect: D204 error
first = torch.optim.AdamW(model.parameters())
second = torch.optim.AdamW(other.parameters())
for batch in range(3):
    (model(batch).loss + other(batch).loss).backward()
    first.step()
    second.step()
