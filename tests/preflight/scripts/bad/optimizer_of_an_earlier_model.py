import torch
from transformers import AutoModelForSequenceClassification
from accelerate import Accelerator
from data import loader

accelerator = Accelerator()
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)  # expect: P142 warning
model = AutoModelForSequenceClassification.from_pretrained("bert-large-uncased", num_labels=5)
model, optimizer, dl = accelerator.prepare(model, optimizer, loader)
for batch in dl:
    loss = model(**batch).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
