import torch
import torch.utils.checkpoint as cp
class Net(torch.nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = torch.nn.Linear(1, 1)
        for p in self.backbone.parameters():
            p.requires_grad = False
        self.head = torch.nn.Linear(1, 1)
    def forward(self, x):
        return self.head(cp.checkpoint(self.backbone, x, use_reentrant=True))  # expect: P125 warning
net = Net(None).cuda()
opt = torch.optim.AdamW(net.head.parameters())
for x in load():
    net(x).sum().backward(); opt.step()
