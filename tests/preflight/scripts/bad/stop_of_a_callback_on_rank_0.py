# target: capability=8.0 processes=4
import os
import time

import lightning
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Budget(TrainerCallback):
    def __init__(self):
        self.stop, self.end = False, time.time() + 3600

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and os.path.exists("END"):
            self.stop = True
        if args.process_index != 0:
            return control
        if logs["loss"] < 1.0:
            control.should_training_stop = True  # expect: R430 error
        return control

    def on_step_end(self, args, state, control, **kwargs):
        if time.time() > self.end:
            control.should_training_stop = True  # expect: R430 warning
        if self.stop:
            control.should_evaluate = True  # expect: R430 error


class Late(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        control.should_epoch_stop = os.path.exists("NEXT")  # expect: R430 error


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 1)

    def training_step(self, batch, index):
        return self.net(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def on_train_epoch_end(self):
        if self.global_rank == 0 and os.path.exists("END"):
            self.trainer.should_stop = True  # expect: R430 error


args = TrainingArguments("out", bf16=True)
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
trainer = Trainer(model, args, train_dataset=[], callbacks=[Budget()])
if trainer.is_world_process_zero():
    trainer.add_callback(Late())
trainer.train()
lightning.Trainer(devices=4, strategy="ddp").fit(Net())
