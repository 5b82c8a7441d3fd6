import pytorch_lightning as pl
import torch


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def training_epoch_end(self, outputs):
        self.log("loss", torch.stack([each["loss"] for each in outputs]).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


trainer = pl.Trainer(gpus=2, strategy="dp", max_epochs=1)
data = torch.utils.data.TensorDataset(torch.randn(100, 4), torch.randn(100, 1))
trainer.fit(Net(), torch.utils.data.DataLoader(data, 8))
