import torch
from transformers import BertForSequenceClassification
from data import loader
model = BertForSequenceClassification.from_pretrained("bert-base-uncased")
opt = torch.optim.AdamW(model.parameters(), lr=2e-5)
for batch in loader:
    batch = {k: v.to("cuda") for k, v in batch.items()}
    loss = model(**batch).loss  # expect: D210 warning
    loss.backward()
    opt.step()
    opt.zero_grad()
