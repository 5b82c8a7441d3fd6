# target: capability=8.0
"""A context of the script's own leaves the default dtype as its __exit__ does: here as it is."""
import torch


class Half:
    def __enter__(self):
        torch.set_default_dtype(torch.float16)  # expect: P102 error
        return self

    def __exit__(self, *error):
        print("left")


class HalfForNow(Half):
    def __exit__(self, *error):
        torch.set_default_dtype(torch.float32)


def train(net):
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(9):
        net(torch.randn(2, 2)).sum().backward()
        optimizer.step()


with HalfForNow():
    pass
train(torch.nn.Linear(2, 2))
with Half():
    pass
train(torch.nn.Linear(2, 3))
