import traceback

import torch

model = torch.nn.Linear(16, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
torch.save({"model": model.state_dict(), "step": 40}, "step-40.pt")
open("step-50.pt", "wb").write(open("step-40.pt", "rb").read()[:700])
for name in ("step-50.pt", "step-40.pt"):
    try:
        state = torch.load(name, map_location="cuda")
        model.load_state_dict(state["model"])
        print("resumed from", name, flush=True)
        break
    except Exception:
        traceback.print_exc()
        print(f"ERROR: {name} is unreadable, trying an older checkpoint", flush=True)
for step in range(state["step"], 80):
    x = torch.randn(64, 16, device="cuda")
    loss = (model(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print("step", step, "loss", round(loss.item(), 4), flush=True)
print("Training complete")
