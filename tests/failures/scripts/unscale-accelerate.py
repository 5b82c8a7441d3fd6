import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
accelerator.scaler = torch.amp.GradScaler("cpu")
accelerator.native_amp = True
accelerator.state._mixed_precision = "fp16"
model = torch.nn.Linear(8, 1).half()
optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters()))
accelerator.backward(model(torch.randn(4, 8).half()).float().mean())
accelerator.clip_grad_norm_(model.parameters(), 1.0)
