# target: processes=8
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("m", torch_dtype="float16")
Trainer(model, TrainingArguments("o", fp16=True, deepspeed="zero2.json")).train()
