# target: capability=8.0 processes=4
import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from data import train_set, val_set

class Net(pl.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.fc = torch.nn.Linear(100, 10)
    def training_step(self, batch, idx):
        x, y = batch
        return F.cross_entropy(self.fc(x), y)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)

trainer = pl.Trainer(accelerator="gpu", devices=[0], strategy="ddp", max_epochs=5)  # expect: V305 error
trainer.fit(Net(), DataLoader(train_set(), batch_size=64), DataLoader(val_set(), batch_size=64))
