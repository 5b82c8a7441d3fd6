import lightning
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader


class Report(lightning.Callback):
    @rank_zero_only
    def on_train_epoch_end(self, trainer, module):
        trainer.strategy.barrier()  # expect: R404 warning


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


trainer = lightning.Trainer(strategy="ddp", callbacks=[Report()])
trainer.fit(Model(), DataLoader(torch.randn(64, 4), 8, shuffle=True))
