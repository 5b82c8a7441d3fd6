"""The Trainer of Lightning scales for precision="16-mixed"; a half backbone inside the module is trained too."""

import lightning as L
import torch
from transformers import AutoModelForSequenceClassification


class Classifier(L.LightningModule):
    def __init__(self, name="bert-base-uncased"):
        super().__init__()
        self.model = AutoModelForSequenceClassification.from_pretrained(
            name,
            torch_dtype=torch.float16,  # expect: P101 error
        )

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-5)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        return {"optimizer": optimizer, "lr_scheduler": schedule}


if __name__ == "__main__":
    trainer = L.Trainer(precision="16-mixed", devices=2, accelerator="gpu")
    trainer.fit(Classifier(), train_dataloaders=[])
