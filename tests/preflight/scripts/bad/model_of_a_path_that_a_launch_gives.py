"""The field of a path has no default, and no run trains without it."""

from dataclasses import dataclass, field
from typing import Optional

from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default=None)


parser = HfArgumentParser((ModelArguments, TrainingArguments))
model_args, training_args = parser.parse_args_into_dataclasses()
if model_args.model_name_or_path:
    model = AutoModelForCausalLM.from_pretrained(
        model_args.model_name_or_path,
        device_map="auto",  # expect: D204 warning
    )
else:
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("x/y"))
Trainer(model=model, args=training_args, train_dataset=range(8)).train()
