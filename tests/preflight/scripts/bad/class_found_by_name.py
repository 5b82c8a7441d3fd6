# target: capability=8.0 processes=4 transformers=5.23
"""The model's class is whatever its configuration names."""

import torch
import transformers

config = transformers.AutoConfig.from_pretrained("m")
architecture = getattr(transformers, config.architectures[0])
model = architecture.from_pretrained(
    "m",
    dtype=torch.float32,
    device_map="auto",  # expect: D204 error
)
trainer = transformers.Trainer(model=model, args=transformers.TrainingArguments("out"), train_dataset=[])
trainer.train()
