# target: capability=8.0 processes=2
import os, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
DT = os.environ.get("DTYPE", "float16")
class MyTrainer(Trainer):
    def compute_loss(self, m, i, **k): return m(**i).loss
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)  # expect: P101 error
opts = {"fp16": True, "output_dir": "o"}
MyTrainer(model, TrainingArguments(**opts), train_dataset=[]).train()
