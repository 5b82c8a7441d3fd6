# target: capability=7.5 launch=fp16 processes=2
"""The head of a frozen network is trained, and it is as half as the network."""

import timm
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = timm.create_model("resnet50d", pretrained=True, num_classes=37)
model.half()  # expect: P101 error
for parameter in model.parameters():
    parameter.requires_grad = False
for parameter in model.get_classifier().parameters():
    parameter.requires_grad = True
optimizer = torch.optim.Adam(params=model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    accelerator.backward(model(batch).sum())
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
