# target: capability=8.0 processes=1
import torch
from torch import nn
import torchvision


def sync_precision(module: nn.Module, dtype):
    """Keep norms in fp32, the rest in dtype."""
    stack = [module]
    while stack:
        m = stack.pop()
        if not isinstance(m, nn.BatchNorm2d):
            for p in m.parameters(recurse=False):
                p.data = p.data.to(dtype)  # expect: P112 error
                if p.grad is not None:
                    p.grad.data = p.grad.data.to(dtype)  # expect: P112 error
        stack.extend(m.children())


def main():
    net = torchvision.models.resnet18(num_classes=10).cuda()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(100):
        x = torch.randn(8, 3, 64, 64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = net(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        sync_precision(net, torch.bfloat16)


if __name__ == "__main__":
    main()
