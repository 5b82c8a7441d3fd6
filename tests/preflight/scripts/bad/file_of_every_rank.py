import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(torch.zeros(4, 4)).sum())
optimizer.step()
accelerator.wait_for_everyone()
torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")  # expect: R405 warning
