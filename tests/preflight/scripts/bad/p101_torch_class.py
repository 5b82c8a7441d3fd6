import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(1, 1)
    def forward(self, x):
        return self.l(x)
class Engine:
    def __init__(self, cfg):
        self.device = torch.device("cuda")
        self.model = Net().to(self.device, dtype=torch.float16)  # expect: P101 error
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"])
        self.scaler = torch.amp.GradScaler("cuda", enabled=cfg["amp"])
    def train_step(self, x):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(x).sum()
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
    def fit(self, loader):
        for x in loader:
            self.train_step(x)
def main():
    cfg = {"lr": 1e-3, "amp": True}
    e = Engine(cfg)
    e.fit(get_loader())
main()
