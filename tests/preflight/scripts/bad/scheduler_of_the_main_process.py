# target: capability=8.0 processes=2
import torch
from accelerate import Accelerator
from transformers import get_cosine_schedule_with_warmup

accelerator = Accelerator()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
schedule = get_cosine_schedule_with_warmup(optimizer, 10, 100)
model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
for _ in range(100):
    accelerator.backward(model(torch.ones(4, 4)).sum())
    optimizer.step()
    if accelerator.is_main_process:
        schedule.step()  # expect: R406 warning
    optimizer.zero_grad()
