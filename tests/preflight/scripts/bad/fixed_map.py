# target: processes=2
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("m", dtype="float32", device_map={"": 0})  # expect: D204 error
Trainer(model, TrainingArguments("o")).train()
