import torch
from transformers import AutoModelForSequenceClassification
from data import loader
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
opt = torch.optim.AdamW(model.parameters(), lr=2e-5)
for epoch in range(3):
    total_loss = 0
    for step, batch in enumerate(loader):
        outputs = model(**{k: v.cuda() for k, v in batch.items()})
        loss = outputs.loss
        total_loss += loss.item()
        loss.backward()
        opt.step()
        opt.zero_grad()
    print(total_loss / len(loader))
