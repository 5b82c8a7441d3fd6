import lightning.pytorch as pl
import torch
from mydata import loader


class M(pl.LightningModule):
    automatic_optimization = False

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 4)

    def training_step(self, b, i):
        o = self.optimizers()
        loss = self.net(b).mean()
        o.zero_grad()
        self.manual_backward(loss)
        o.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


CFG = {"max_epochs": 3, "devices": 4, "strategy": "ddp"}
pl.Trainer(**CFG).fit(M(), loader)
