import pytorch_lightning as pl
import torch
from models import Classifier
from data import DataModule

def main():
    pl.seed_everything(1)
    model = Classifier(lr=3e-4)
    dm = DataModule("data/", batch_size=32)
    ckpt = pl.callbacks.ModelCheckpoint(monitor="val_loss")
    trainer = pl.Trainer(
        accelerator="gpu",
        devices=2,
        strategy="dp",  # expect: V305 warning
        max_epochs=20,
        callbacks=[ckpt],
    )
    trainer.fit(model, datamodule=dm)

main()
