# target: capability=8.0 processes=4
import lightning
import torch
from transformers import AutoModel

from data import make_loader


class Tagger(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.bert = AutoModel.from_pretrained("bert-base-cased")
        self.head = torch.nn.Linear(768, 9)

    def training_step(self, batch, _):
        hidden = self.bert(input_ids=batch["ids"])[0]
        return torch.nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), batch["y"].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-4)


trainer = lightning.Trainer(devices=4, strategy="ddp_find_unused_parameters_true", max_epochs=3)
trainer.fit(Tagger(), make_loader())
