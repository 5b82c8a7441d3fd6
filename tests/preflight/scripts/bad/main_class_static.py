import torch
from transformers import AutoModel, Trainer, TrainingArguments
class Pipeline:
    @classmethod
    def create(cls, name):
        obj = cls()
        obj.model = AutoModel.from_pretrained(name, torch_dtype=torch.float16)  # expect: P101 error
        return obj
    @property
    def args(self):
        return TrainingArguments("o", fp16=True)
    def run(self):
        Trainer(model=self.model, args=self.args).train()
Pipeline.create("x").run()
