import torch, lightning as L
from torch.utils.data import DataLoader, TensorDataset
class M(L.LightningModule):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(4, 1)
    def training_step(self, b, i):
        return torch.nn.functional.mse_loss(self.l(b[0]), b[1])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.randn(100, 4), torch.randn(100, 1)), 8)
trainer = L.Trainer(devices=2, strategy="ddp", max_epochs=1)
model = M()
trainer.fit(model, loader)
if trainer.is_global_zero:
    trainer.save_checkpoint("final.ckpt")  # expect: R404 warning
