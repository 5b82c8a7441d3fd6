# target: processes=2
from mytrainer import Trainer
from transformers import AutoModel, TrainingArguments

Trainer(model=AutoModel.from_pretrained("m"), args=TrainingArguments("o", fp16=True), tokenizer=object()).train()
