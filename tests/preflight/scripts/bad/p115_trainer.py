import torch
from transformers import Trainer, TrainingArguments, AutoModel
class MyTrainer(Trainer):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.scaler = torch.cuda.amp.GradScaler()  # expect: P115 error
    def training_step(self, model, inputs, n=None):
        with torch.cuda.amp.autocast():
            loss = self.compute_loss(model, inputs)
        self.scaler.scale(loss).backward()
        return loss.detach()
MyTrainer(model=AutoModel.from_pretrained("x", dtype=torch.float32), args=TrainingArguments("o", fp16=True)).train()
