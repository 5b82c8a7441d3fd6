import torch
import evaluate
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
    losses, samples_seen = [], 0
    metric = evaluate.load("accuracy")
    for step, batch in enumerate(eval_loader):
        with torch.no_grad():
            outputs = model(**batch)
        predictions, references = accelerator.gather((outputs.logits.argmax(-1), batch["labels"]))
        if accelerator.num_processes > 1:
            if step == len(eval_loader) - 1:
                predictions = predictions[: len(eval_loader.dataset) - samples_seen]
                references = references[: len(eval_loader.dataset) - samples_seen]
            else:
                samples_seen += references.shape[0]
        metric.add_batch(predictions=predictions, references=references)
