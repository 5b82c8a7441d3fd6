# target: capability=8.0 processes=2
"""Lightning takes its precision from no launch, and bf16 needs no scaler."""
import lightning
import torch
from torch import nn


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(8, 8)

    def training_step(self, batch, _index):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = self.backbone(batch)
        return hidden.float().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


trainer = lightning.Trainer(devices=2, precision="32-true")
trainer.fit(Net())
