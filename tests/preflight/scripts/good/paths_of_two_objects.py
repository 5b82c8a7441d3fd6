"""Two objects have a path each, and a name gets two, one for a model and one for its weights."""

import os
import sys

import torch


class Exporter:
    def __init__(self, model, path):
        self.model, self.path = model, path

    def run(self):
        torch.save(self.model, self.path)


class Weights:
    def __init__(self, path):
        self.path = path

    def read(self, model):
        model.load_state_dict(torch.load(self.path))


model = torch.nn.Linear(4, 2)
Weights(sys.argv[1]).read(model)
Exporter(model, sys.argv[2]).run()
path = os.path.join(sys.argv[2], "whole.pt")
torch.save(model, path)
path = os.path.join(sys.argv[2], "weights.pt")
model.load_state_dict(torch.load(path))
