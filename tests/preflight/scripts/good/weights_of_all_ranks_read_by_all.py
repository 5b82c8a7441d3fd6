# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments
from trl.models.utils import unwrap_model_for_generation

SHARDS = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}


class Sample(TrainerCallback):
    def on_evaluate(self, args, state, control, model=None, **kwargs):
        out = model.generate(torch.ones(1, 4).long().cuda(), synced_gpus=True)
        if state.is_world_process_zero:
            print(out)


model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
args = TrainingArguments("out", bf16=True, deepspeed=SHARDS)
trainer = Trainer(model, args, train_dataset=[], callbacks=[Sample()])
trainer.train()
trainer.save_model("out")
plain = TrainingArguments("out", bf16=True, deepspeed={"zero_optimization": {"stage": 2}})
trainer = Trainer(AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32), plain, train_dataset=[])
trainer.train()
if trainer.is_world_process_zero():
    trainer.save_model("out")

accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=3))
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader([{"input_ids": torch.ones(4).long()}])
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
    optimizer.zero_grad()
with unwrap_model_for_generation(model, accelerator) as whole:
    if accelerator.is_main_process:
        print(whole.generate(batch["input_ids"]))
