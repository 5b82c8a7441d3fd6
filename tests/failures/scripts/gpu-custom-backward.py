import torch


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad.cpu().clamp(-1, 1)


model = torch.nn.Linear(16, 16).cuda()
for step in range(3):
    loss = Straight.apply(model(torch.randn(4, 16, device="cuda"))).pow(2).mean()
    loss.backward()
    print(step, loss.item())
