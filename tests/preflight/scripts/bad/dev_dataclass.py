from dataclasses import dataclass
import torch
@dataclass
class Config:
    lr: float = 1e-4
    device: str = "cuda:1"  # expect: D201 warning
def train(cfg: Config):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2)).to(cfg.device)  # expect: D201 info
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    loss = net(torch.zeros(1, 2)).sum()
    loss.backward()
    opt.step()
train(Config())
