# target: capability=8.0 processes=4
import lightning as L
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 224 * 224, 10))
        self.losses = []

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.losses.append(loss.detach().cpu())

    def on_validation_epoch_end(self):
        self.log("val/loss", torch.stack(self.losses).mean(), sync_dist=True)  # expect: D210 warning
        self.losses.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


data = DataLoader(FakeData(64), batch_size=8)
trainer = L.Trainer(devices=4, accelerator="gpu", strategy="ddp")
trainer.fit(Classifier(), data, data)
