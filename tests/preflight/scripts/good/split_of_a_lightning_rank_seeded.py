# target: capability=8.0 processes=2
import lightning as L
import torch
from torch.utils.data import DataLoader, random_split

from photos import Photos


class Data(L.LightningDataModule):
    def setup(self, stage=None):
        photos = Photos()
        self.train, self.held = random_split(photos, [0.9, 0.1])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=8, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.held, batch_size=8)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)

    def training_step(self, batch, index):
        return self.body(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


L.seed_everything(7)
trainer = L.Trainer(accelerator="gpu", devices=2, strategy="ddp", max_epochs=3)
trainer.fit(Net(), Data())
