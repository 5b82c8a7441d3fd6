"""16-true casts the whole module and scales nothing; bf16-true is emulated before Ampere."""
# target: capability=7.5 processes=2

import pytorch_lightning as pl
import torch


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return [torch.optim.Adam(self.layer.parameters())], []


pl.Trainer(precision="16-true").fit(Net(), [])  # expect: P102 error
pl.Trainer(precision="bf16-true").fit(Net(), [])  # expect: P131 error
