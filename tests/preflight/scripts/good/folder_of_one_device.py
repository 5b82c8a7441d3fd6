# target: capability=8.0 processes=4
"""A Trainer of one device joins no ranks."""

import os

import pytorch_lightning as pl
import torch


class Small(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def training_step(self, batch, number):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


os.makedirs("weights")
pl.Trainer(devices=1, strategy="ddp").fit(Small())
