"""Weights in half for the forward pass, in float32 for each step, as fine-tuning of CLIP keeps them."""
# target: capability=8.0 processes=2

import torch


def convert_models_to_fp32(model):
    for p in model.parameters():
        p.data = p.data.float()
        p.grad.data = p.grad.data.float()


def convert_weights(model):
    def convert(layer):
        if isinstance(layer, torch.nn.Linear):
            layer.weight.data = layer.weight.data.half()

    model.apply(convert)


device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(4, 4).to(device)
convert_weights(model)
optimizer = torch.optim.Adam(model.parameters())
for batch in range(3):
    model(batch).sum().backward()
    if device == "cpu":
        optimizer.step()
    else:
        convert_models_to_fp32(model)
        optimizer.step()
        convert_weights(model)
