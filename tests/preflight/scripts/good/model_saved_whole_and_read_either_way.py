"""A model that is saved whole, and read as torch before 2.6 and from then on allows."""

import pickle

import torch
from packaging import version

model = torch.nn.Linear(4, 2)
torch.save(model, "model.pt")
if version.parse(torch.__version__) >= version.parse("2.6"):
    again = torch.load("model.pt", weights_only=False)
else:
    again = torch.load("model.pt")
torch.save({"model": model}, "last.pt")
try:
    last = torch.load("last.pt")
except pickle.UnpicklingError:
    last = torch.load("last.pt", weights_only=False)
