# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

SHARDS = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}


class Sample(TrainerCallback):
    def on_evaluate(self, args, state, control, model=None, **kwargs):
        if not state.is_world_process_zero:
            return
        print(model.generate(torch.ones(1, 4).long().cuda()))  # expect: R404 error


def finish(trainer, out):
    if trainer.is_world_process_zero():
        trainer.save_model(out)  # expect: R404 error


for given in ({"deepspeed": SHARDS},):
    model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
    args = TrainingArguments("out", bf16=True, **given)
    trainer = Trainer(model, args, train_dataset=[], callbacks=[Sample()])
    trainer.train()
    finish(trainer, "out")

accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=3))
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader([{"input_ids": torch.ones(4).long()}])
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
    optimizer.zero_grad()
if accelerator.is_main_process:
    print(accelerator.unwrap_model(model).generate(batch["input_ids"]))  # expect: R404 error
