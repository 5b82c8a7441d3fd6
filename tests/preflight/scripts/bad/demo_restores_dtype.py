import torch
from accelerate import Accelerator


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4, dtype=torch.bfloat16)  # expect: P110 warning
        self.out = torch.nn.Linear(4, 4)


def demo(model):
    dtype = next(model.parameters()).dtype
    model.eval()
    model.to(torch.float32)
    model.to(dtype)  # expect: P111 error
    model.train()


def main():
    accelerator = Accelerator()
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(400):
        accelerator.backward(model(step))
        optimizer.step()
        if step % 100 == 0:
            demo(accelerator.unwrap_model(model))


main()
