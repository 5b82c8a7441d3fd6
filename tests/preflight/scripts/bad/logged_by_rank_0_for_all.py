import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader
from data import dataset


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        loss = self.layer(batch).mean()
        if self.trainer.global_rank == 0:
            self.log("loss", loss, sync_dist=True)  # expect: R404 error
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


pl.Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(Net(), DataLoader(dataset(), batch_size=8))
# target: capability=8.0 processes=4
