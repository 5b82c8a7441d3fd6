# target: transformers=4.40
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("m")
args = TrainingArguments("o", fp16=True, no_cuda=False, group_by_length=True)
Trainer(model=model, args=args, tokenizer=object()).train()
