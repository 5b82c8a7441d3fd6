# target: capability=cpu transformers=5.23
from transformers import Trainer, TrainingArguments

args = TrainingArguments(
    output_dir="out",
    bf16=True,  # expect: P132 error
)
Trainer(model=None, args=args).train()
