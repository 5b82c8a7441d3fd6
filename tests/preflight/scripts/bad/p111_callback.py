import torch
from transformers import AutoModel, Trainer, TrainingArguments, TrainerCallback
class Sample(TrainerCallback):
    def on_evaluate(self, args, state, control, model=None, **kwargs):
        model.to(torch.float16)  # expect: P111 error
        model.generate()
model = AutoModel.from_pretrained("x", dtype=torch.float32)
Trainer(model, TrainingArguments("o"), callbacks=[Sample()]).train()
