# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from transformers import EsmModel


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.esm = EsmModel.from_pretrained("facebook/esm2_t6_8M_UR50D", add_pooling_layer=False)
        self.head = torch.nn.Linear(320, 2)

    def forward(self, tokens):
        return self.head(self.esm(tokens).last_hidden_state.mean(1))


accelerator = Accelerator()
model = Encoder()
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(torch.ones(2, 8, dtype=torch.long)).sum())
optimizer.step()
