# target: capability=8.0 processes=4
import argparse
import os

import lightning as L
import torch
from torch import nn


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.layer(batch).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, default=1)
args = parser.parse_args()
model = Classifier()
trainer = L.Trainer(devices=args.gpus, strategy="ddp")
trainer.fit(model)
torch.save(model.state_dict(), "model.pt")  # expect: R405 warning
fabric = L.Fabric(devices=4)
fabric.launch()
os.makedirs("work")  # expect: R405 warning
