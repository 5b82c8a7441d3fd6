"""Callbacks run before the first step too: of transformers and of Lightning."""
# target: capability=8.0 processes=2 transformers=4.50

import lightning
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Caster(TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **kwargs):
        if args.fp16:
            model.half()  # expect: P101 error


class Early(TrainerCallback):
    def on_init_end(self, args, state, control, **kwargs):
        kwargs["model"].to(torch.bfloat16)  # expect: P106 error


class Start(lightning.Callback):
    def on_train_start(self, trainer, pl_module):
        pl_module.half()  # expect: P101 error


class End(lightning.Callback):
    def on_validation_end(self, trainer, pl_module):
        pl_module.to(torch.bfloat16)  # expect: P111 error


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def training_step(self, batch, index):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


args = TrainingArguments("o", fp16=True)
Trainer(AutoModelForCausalLM.from_pretrained("m"), args, callbacks=[Caster]).train()
trainer = Trainer(AutoModelForCausalLM.from_pretrained("m"), args)
trainer.add_callback(Early())
trainer.train()
batches = torch.utils.data.DataLoader(torch.ones(8, 4))
lightning.Trainer(precision="16-mixed", callbacks=[Start()]).fit(Net(), batches)
lightning.Trainer(precision="16-mixed", callbacks=End()).fit(Net(), batches)
