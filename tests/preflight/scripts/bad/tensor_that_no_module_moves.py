# target: capability=8.0 processes=4
import lightning.pytorch as pl
import torch


class Positions(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.table = self.make_table(8)
        self.bias = torch.linspace(0, 1, 8)  # expect: D210 info
        self.scale = torch.tensor(0.5)

    def make_table(self, width):
        table = torch.zeros(width, width)
        table[0] = 1
        return table.unsqueeze(0)

    def forward(self, x):
        h = self.layer(x) * self.scale
        return h + self.bias  # expect: D210 warning

    def training_step(self, batch, batch_idx):
        return self(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = pl.Trainer(accelerator="gpu", devices=4, strategy="ddp", max_epochs=1)
trainer.fit(Positions(), torch.utils.data.DataLoader(torch.ones(16, 8)))
