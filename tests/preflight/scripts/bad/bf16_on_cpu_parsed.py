# target: capability=cpu args=--bf16
from transformers import HfArgumentParser, Trainer, TrainingArguments

(parsed,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()  # expect: P132 error
Trainer(model=None, args=parsed).train()
