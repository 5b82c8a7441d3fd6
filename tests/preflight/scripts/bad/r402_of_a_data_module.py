# target: capability=8.0
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset


class Data(pl.LightningDataModule):
    def setup(self, stage):
        self.rows = TensorDataset(torch.randn(8, 4))

    def train_dataloader(self):
        return DataLoader(self.rows, shuffle=True, sampler=RandomSampler(self.rows))  # expect: R402 error


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.net(batch[0]).sum()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


pl.Trainer(max_epochs=2).fit(Model(), datamodule=Data())
