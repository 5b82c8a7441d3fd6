# target: capability=8.0 processes=4
import lightning as L
import torch


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).sum()
        if self.trainer.is_global_zero:
            self.trainer.strategy.barrier()  # expect: R404 error
        if self.global_rank == 0:
            print(self.all_gather(loss))  # expect: R404 error
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def on_train_epoch_end(self):
        torch.save(self.layer.state_dict(), "layer.pt")  # expect: R405 warning


trainer = L.Trainer(devices=4, strategy="ddp")
trainer.fit(Module(), torch.utils.data.DataLoader(torch.zeros(64, 4)))
