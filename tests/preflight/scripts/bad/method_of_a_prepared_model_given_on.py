# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForSeq2SeqLM

from summaries import Summaries


def validate(loader, model):
    model.eval()
    with torch.no_grad():
        return [model.generate(batch["input_ids"]) for batch in loader]  # expect: C501 warning


def train(loader, held, model, optimizer, accelerator):
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
    return validate(held, model)


accelerator = Accelerator()
model = AutoModelForSeq2SeqLM.from_pretrained("facebook/bart-large", torch_dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters())
loader, held = DataLoader(Summaries("train"), shuffle=True), DataLoader(Summaries("held"))
model, optimizer, loader, held = accelerator.prepare(model, optimizer, loader, held)
print(len(train(loader, held, model, optimizer, accelerator)))
