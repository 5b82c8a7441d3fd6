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
import torchmetrics


@torch.no_grad()
def validate(model, loader, accelerator):
    acc = torchmetrics.classification.MulticlassAccuracy(num_classes=2).to(accelerator.device)
    model.eval()
    for batch in loader:
        out = model(**batch)
        pred, target = accelerator.gather_for_metrics((out.logits, batch["labels"]))
        acc.update(pred, target)
    return acc.compute()


for epoch in range(3):
    model.train()
    for batch in train_loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    print(validate(model, eval_loader, accelerator))
