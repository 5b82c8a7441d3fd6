# target: capability=cpu args=--bf16,--use_cpu
from transformers import HfArgumentParser, Trainer, TrainingArguments

(parsed,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=None, args=parsed).train()
Trainer(model=None, args=TrainingArguments(output_dir="out", bf16=True, use_cpu=True)).train()
