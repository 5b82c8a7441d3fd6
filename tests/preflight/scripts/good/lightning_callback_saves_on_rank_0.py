import torch, lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset
class Keep(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        trainer.save_checkpoint(f"e{trainer.current_epoch}.ckpt")
class M(pl.LightningModule):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(4, 1)
    def training_step(self, b, i):
        return torch.nn.functional.mse_loss(self.l(b[0]), b[1])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.randn(100, 4), torch.randn(100, 1)), 8)
trainer = pl.Trainer(accelerator="gpu", devices=4, strategy="fsdp", max_epochs=1, callbacks=[Keep()])
trainer.fit(M(), loader)
