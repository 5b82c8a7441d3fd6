import torch
from transformers import AutoModel, Trainer, TrainingArguments
teacher = AutoModel.from_pretrained("t", torch_dtype=torch.float16).eval()
for p in teacher.parameters(): p.requires_grad = False
student = AutoModel.from_pretrained("s", torch_dtype=torch.float32)
class D(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kw):
        with torch.no_grad():
            t = teacher(**inputs)
        return torch.nn.functional.mse_loss(model(**inputs).logits, t.logits.float())
D(student, TrainingArguments("o", fp16=True)).train()
