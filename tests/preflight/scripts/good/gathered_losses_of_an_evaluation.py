import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification
from mydata import train_ds, eval_ds

accelerator = Accelerator()
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
train_loader = DataLoader(train_ds, shuffle=True, batch_size=16)
eval_loader = DataLoader(eval_ds, batch_size=32)
model, optimizer, train_loader, eval_loader = accelerator.prepare(model, optimizer, train_loader, eval_loader)
for epoch in range(3):
    for batch in train_loader:
        out = model(**batch)
        accelerator.backward(out.loss)
        optimizer.step()
        optimizer.zero_grad()
        hits = accelerator.gather((out.logits.argmax(-1) == batch["labels"]).float())
    losses = []
    for batch in eval_loader:
        with torch.no_grad():
            losses.append(accelerator.gather(model(**batch).loss.repeat(32)))
