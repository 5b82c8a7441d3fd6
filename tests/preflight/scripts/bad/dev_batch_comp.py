import torch
from accelerate import Accelerator
def main(loader):
    acc = Accelerator()
    model = torch.nn.Linear(1, 1)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    model, opt = acc.prepare(model, opt)
    for batch in loader:
        batch = {k: v.to("cuda:0") for k, v in batch.items()}  # expect: D201 warning
        acc.backward(model(**batch).mean())
        opt.step()
