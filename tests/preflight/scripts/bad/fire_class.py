# target: capability=8.0 processes=2
import fire
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from datasets import load_from_disk


class App:
    def __init__(self, model="gpt2"):
        self.model = model

    def _load(self, **kw):
        return AutoModelForCausalLM.from_pretrained(self.model, **kw)

    def train(self, out="o"):
        model = self._load(torch_dtype=torch.float16)  # expect: P101 error
        Trainer(model=model, args=TrainingArguments(out, fp16=True), train_dataset=load_from_disk("d")).train()

    def chat(self):
        self._load(device_map="auto").generate()


if __name__ == "__main__":
    fire.Fire(App)
