import fire
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Tuning:
    def train(self, name="gpt2"):
        model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")  # expect: D204 warning
        Trainer(model, TrainingArguments("out")).train()


fire.Fire(component=Tuning())
