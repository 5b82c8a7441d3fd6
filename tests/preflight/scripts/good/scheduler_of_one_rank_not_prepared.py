import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, get_scheduler
from torch.utils.data import DataLoader
from mydata import ds

accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(ds, shuffle=True, batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
sched = get_scheduler("linear", optimizer, 0, 3 * len(loader))
for epoch in range(3):
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        sched.step()
        optimizer.zero_grad()
