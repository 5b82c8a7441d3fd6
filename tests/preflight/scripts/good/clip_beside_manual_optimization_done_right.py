import lightning as L
import torch
from torch import nn
from gan import Generator, Discriminator, loader

class GAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.g = Generator()
        self.d = Discriminator()
    def training_step(self, batch, idx):
        opt_g, opt_d = self.optimizers()
        z = torch.randn(batch.size(0), 100, device=self.device)
        g_loss = -self.d(self.g(z)).mean()
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        d_loss = self.d(self.g(z).detach()).mean() - self.d(batch).mean()
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()
    def configure_optimizers(self):
        return [torch.optim.Adam(self.g.parameters(), 2e-4), torch.optim.Adam(self.d.parameters(), 2e-4)]

trainer = L.Trainer(max_epochs=50, devices=2, precision="16-mixed")
trainer.fit(GAN(), loader())
