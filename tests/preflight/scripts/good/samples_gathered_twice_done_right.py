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
    model.train()
    for batch in train_loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    preds, labels = [], []
    for batch in eval_loader:
        with torch.no_grad():
            logits = model(**batch).logits
        preds.append(accelerator.gather_for_metrics(logits.argmax(-1)).cpu())
        labels.append(accelerator.gather_for_metrics(batch["labels"]).cpu())
    accelerator.print((torch.cat(preds) == torch.cat(labels)).float().mean())
