"""Lightning keeps float32 parameters and scales by itself; a frozen half encoder only serves."""
# target: capability=7.5 processes=2

import lightning as L
import torch
from transformers import AutoModel


class Net(L.LightningModule):
    def __init__(self, encoder):
        super().__init__()
        self.save_hyperparameters(ignore=["encoder"])
        self.encoder = encoder.eval()
        self.teacher = AutoModel.from_pretrained("t", torch_dtype=torch.float16)
        self.head = torch.nn.Linear(2, 2)

    def training_step(self, batch, index):
        with torch.no_grad():
            hidden = self.encoder(batch)
        loss = self.head(hidden.float()).mean()
        self.log("loss", loss)
        return loss

    def on_train_end(self):
        self.half()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def by_trainer():
    encoder = AutoModel.from_pretrained("m", torch_dtype=torch.float16)
    trainer = L.Trainer(accelerator="gpu", strategy="ddp", precision="16-mixed", gradient_clip_val=1.0)
    trainer.fit(Net(encoder), [])


def by_hand():
    fabric = L.Fabric(devices=2, precision="16-mixed")
    fabric.launch()
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = fabric.setup(model, optimizer)
    for batch in fabric.setup_dataloaders([]):
        loss = model(batch.to(fabric.device)).sum()
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()


def sharded():
    fabric = L.Fabric(devices=2, precision="16-true", strategy="fsdp")
    fabric.launch()
    model, optimizer = fabric.setup(model := torch.nn.Linear(2, 2), torch.optim.Adam(model.parameters()))
    for batch in range(3):
        fabric.backward(model(batch).sum())
        optimizer.step()


by_trainer()
by_hand()
sharded()
