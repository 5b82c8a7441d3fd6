"""The parameters of a module are those of the models inside it, cast or not with the whole."""

import torch
from transformers import AutoModel, Trainer, TrainingArguments


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = AutoModel.from_pretrained("m", torch_dtype=torch.float16)  # expect: P101 error
        self.reference_model = AutoModel.from_pretrained("m", torch_dtype=torch.float16)
        self.head = torch.nn.Linear(2, 2)


def upcast():
    model = Classifier()
    model.float()
    return model


arguments = TrainingArguments("out", fp16=True)
Trainer(model=Classifier(), args=arguments).train()
Trainer(model=upcast(), args=arguments).train()
