import torch
import lightning as pl
from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry
StrategyRegistry.register("ddp_cpu", DDPStrategy, process_group_backend="gloo")
class M(pl.LightningModule):
    def __init__(self): super().__init__(); self.net = torch.nn.Linear(8, 4)
    def training_step(self, batch, i):
        x, y = batch; return torch.nn.functional.cross_entropy(self.net(x), y)
    def configure_optimizers(self): return torch.optim.Adam(self.parameters())
dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,))), batch_size=8)
pl.Trainer(devices=2, accelerator="gpu", strategy="ddp_cpu").fit(M(), dl)
