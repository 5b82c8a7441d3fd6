# target: capability=8.0 processes=4
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Target(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs["loss"] < 1.0:
            control.should_training_stop = True  # expect: R430 error


model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
trainer = Trainer(model, TrainingArguments("out", bf16=True), train_dataset=[])
if trainer.is_world_process_zero():
    trainer.add_callback(Target())
trainer.train()
