import lightning as L
import torch


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Dropout(), torch.nn.Linear(64, 10))
        self.unused = torch.nn.Linear(4, 4)
        self.save_hyperparameters({"error_rate": 0.1, "nan_policy": "raise"})

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val_error", (self.net(batch[0]).argmax(-1) != batch[1]).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters())
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


x = torch.randn(240, 32)
data = torch.utils.data.TensorDataset(x, x[:, :10].argmax(-1))
train, valid = (torch.utils.data.DataLoader(data, batch_size=16) for _ in range(2))
L.Trainer(max_epochs=3, accelerator="gpu", devices=1, precision="16-mixed", gradient_clip_val=1.0, callbacks=[L.pytorch.callbacks.EarlyStopping("val_error", patience=1)]).fit(Net(), train, valid)
