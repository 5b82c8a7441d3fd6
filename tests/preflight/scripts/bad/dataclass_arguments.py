# target: args=--fp16
from dataclasses import dataclass, field

from transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    name: str = field(default="m")
    torch_dtype: str = field(default="float16")


parser = HfArgumentParser((ModelArguments, TrainingArguments))
model_args, training_args = parser.parse_args_into_dataclasses()
model = AutoModel.from_pretrained(model_args.name, torch_dtype=model_args.torch_dtype)  # expect: P101 error
Trainer(model=model, args=training_args).train()
