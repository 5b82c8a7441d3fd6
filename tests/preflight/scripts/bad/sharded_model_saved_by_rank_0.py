"""save_model() under DeepSpeed gathers the weights of all ranks."""

from transformers import Trainer, TrainingArguments, AutoModelForCausalLM
from mydata import train

args = TrainingArguments("out", deepspeed="ds_z3.json", per_device_train_batch_size=1)
model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(model, args, train_dataset=train)
trainer.train()
if trainer.is_world_process_zero():
    trainer.save_model("final")  # expect: R404 warning
