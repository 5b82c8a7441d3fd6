# target: capability=8.0 processes=4
"""Lightning's ranks run all of the script, what stands before the Trainer too."""

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


os.makedirs("weights")  # expect: R405 warning
pl.Trainer(devices=4, strategy="ddp").fit(Small())
