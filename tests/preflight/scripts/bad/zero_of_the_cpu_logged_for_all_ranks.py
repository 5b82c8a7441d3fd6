# target: capability=8.0 processes=4
import lightning as L
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 224 * 224, 10))

    def training_step(self, batch, index):
        self.log("regularizer", torch.zeros(1), sync_dist=True)  # expect: D210 warning
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


trainer = L.Trainer(devices=4, accelerator="gpu", strategy="ddp")
trainer.fit(Classifier(), DataLoader(FakeData(64), batch_size=8))
