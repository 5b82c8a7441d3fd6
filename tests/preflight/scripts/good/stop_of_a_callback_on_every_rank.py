# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Budget(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero:
            print(logs)
        if logs["loss"] < 1.0:
            control.should_training_stop = True

    def on_step_end(self, args, state, control, **kwargs):
        box = [None]
        if state.is_world_process_zero:
            box[0] = os.path.exists("END")
        dist.broadcast_object_list(box, src=0)
        if box[0]:
            control.should_training_stop = True

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            control.should_training_stop = False


args = TrainingArguments("out", bf16=True)
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
trainer = Trainer(model, args, train_dataset=[], callbacks=[Budget()])
trainer.train()
