from transformers import Trainer, TrainingArguments, AutoModelForCausalLM
from mydata import train

args = TrainingArguments("out", deepspeed="ds_z3.json", per_device_train_batch_size=1)
model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(model, args, train_dataset=train)
trainer.train()
trainer.save_model("final")
