import torch
from transformers import AutoModel, Trainer, TrainerCallback, TrainingArguments


class Demo(TrainerCallback):
    def __init__(self, every=100):
        self.every = every

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % self.every == 0:
            model.half()  # expect: P111 error
            model.generate()


class MyTrainer(Trainer):
    def evaluate(self, *args, **kwargs):
        self.model.to(torch.bfloat16)  # expect: P111 error
        return super().evaluate(*args, **kwargs)


model = AutoModel.from_pretrained("m", dtype=torch.float32)
Trainer(model, TrainingArguments("o"), callbacks=[Demo(10)]).train()
other = AutoModel.from_pretrained("m", dtype=torch.float32)
MyTrainer(model=other, args=TrainingArguments("o")).train()
other.half().save_pretrained("o")
