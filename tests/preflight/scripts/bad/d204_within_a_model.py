# target: capability=8.0 processes=2
import torch
from accelerate import Accelerator
from transformers import AutoModel


class Reward(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.head = torch.nn.Linear(8, 1)

    @classmethod
    def load(cls, name, **options):
        return cls(AutoModel.from_pretrained(name, **options))


accelerator = Accelerator()
model = Reward.load("gpt2", device_map="balanced")  # expect: D204 error
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(torch.ones(8)).sum())
optimizer.step()
