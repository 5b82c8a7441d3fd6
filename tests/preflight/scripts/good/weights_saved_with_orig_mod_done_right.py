import torch
from net import GPT, cfg
from data import get_batch

model = GPT(cfg).to("cuda")
model = torch.compile(model)
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(1000):
    x, y = get_batch()
    loss = model(x, y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
torch.save({"model": model._orig_mod.state_dict(), "cfg": cfg}, "gpt.pt")

ck = torch.load("gpt.pt", weights_only=False)
gpt = GPT(ck["cfg"])
gpt.load_state_dict(ck["model"])
