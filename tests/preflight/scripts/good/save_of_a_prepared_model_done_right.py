from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification, AutoTokenizer
import torch
from data import get_loaders

accelerator = Accelerator()
model = AutoModelForSequenceClassification.from_pretrained("roberta-base")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
train_dl, _ = get_loaders()
model, optimizer, train_dl = accelerator.prepare(model, optimizer, train_dl)
for batch in train_dl:
    optimizer.zero_grad()
    loss = model(**batch).loss
    accelerator.backward(loss)
    optimizer.step()
accelerator.wait_for_everyone()
if accelerator.is_main_process:
    accelerator.unwrap_model(model).save_pretrained("out")
