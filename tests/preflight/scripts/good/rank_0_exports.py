# target: capability=8.0 processes=2
import os, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
def export():
    model = AutoModelForCausalLM.from_pretrained("o", device_map="auto", dtype=torch.float16)
    model.to("cuda:0")
    model.save_pretrained("x")
def main():
    model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
    t = Trainer(model=model, args=TrainingArguments("o", fp16=True), train_dataset=[])
    t.train()
    if int(os.environ.get("RANK", 0)) == 0:
        export()
main()
