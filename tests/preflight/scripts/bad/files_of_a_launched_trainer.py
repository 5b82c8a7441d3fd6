# target: capability=8.0 processes=4
import os

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("base", torch_dtype=torch.float32)


class AdapterTrainer(Trainer):
    def _save(self, output_dir: str, state_dict: dict[str, torch.Tensor] | None = None) -> None:
        torch.save(self.model.state_dict(), "out/adapter.bin")


trainer = AdapterTrainer(model=model, args=TrainingArguments("out"))
trainer.train()
os.makedirs("out/final")  # expect: R405 warning
trainer.save_model("out/final")
torch.save(model.state_dict(), "out/final.pt")  # expect: R405 warning
if trainer.args.should_save:
    trainer._save("out")
