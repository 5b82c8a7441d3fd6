import torch

for i in range(3):
    t = torch.randint(0, 10, (32,)).cuda()
    t[3] = 12 if i == 2 else 1
    loss = torch.nn.functional.cross_entropy(torch.randn(32, 10, device="cuda", requires_grad=True), t)
    print("loss", loss.item(), flush=True)
