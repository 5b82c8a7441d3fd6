import torch
from accelerate import Accelerator
acc = Accelerator()
model = torch.nn.Linear(1, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
model, opt = acc.prepare(model, opt)
for batch in loader():
    x = batch["x"].to("cuda:0")  # expect: D201 warning
    loss = model(x).mean()
    acc.backward(loss)
    opt.step()
