import sys

sys.modules["mpi4py"] = None
import lightning as L
import torch

scale = torch.randn(8, 1, device="cuda").std()
print("scale", scale.item(), flush=True)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        return self.net(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 8)), batch_size=8)
L.Trainer(max_epochs=1, accelerator="gpu", devices=1, strategy="ddp_fork", logger=False, enable_checkpointing=False).fit(Net(), data)
