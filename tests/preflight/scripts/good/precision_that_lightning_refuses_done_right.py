import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader
from data import MyDataset

class LitModel(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(28 * 28, 128), nn.ReLU(), nn.Linear(128, 10))
    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x.flatten(1)), y)
        self.log("train_loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=10, accelerator="gpu", devices=4, strategy="ddp", precision="16-mixed")
    trainer.fit(LitModel(), DataLoader(MyDataset(), batch_size=64, num_workers=4))
