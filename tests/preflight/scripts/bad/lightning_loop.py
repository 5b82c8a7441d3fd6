"""What the hooks of a LightningModule do to its gradients and weights."""
# target: capability=7.5 processes=2

import lightning.pytorch as pl
import torch


class Gan(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = torch.nn.Linear(2, 2)

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        loss = self.generator(batch).mean()
        optimizer.zero_grad()
        loss.backward()  # expect: P124 error
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)  # expect: P116 warning
        optimizer.step()

    def on_validation_epoch_end(self):
        self.half()  # expect: P111 error
        self.generator(torch.ones(1, 2).half())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    trainer = pl.Trainer(precision=16, max_epochs=1)
    trainer.fit(model=Gan(), train_dataloaders=[])


if __name__ == "__main__":
    main()
