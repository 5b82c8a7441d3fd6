# target: capability=8.0 processes=1
import torch

net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
for name, parameter in net.named_parameters():
    if name.startswith("0"):
        parameter.requires_grad = False
net.half()  # expect: P102 warning
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for batch in range(10):
    net(batch).backward()
    optimizer.step()
