import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} | loss {loss.item():.4f}", flush=True)
import traceback
try:
    raise ConnectionError("tracker did not answer")
except ConnectionError:
    traceback.print_exc()
print("metrics stay here", flush=True)
for step in range(4):
    print(f"2026-11-21 03:00:0{step} | INFO | step {step} loss 0.{step}12", flush=True)
print("Training completed.")
