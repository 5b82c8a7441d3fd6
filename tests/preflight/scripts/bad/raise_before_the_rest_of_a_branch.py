# target: capability=8.0 processes=4
"""Without its option the script raises before it makes a model: a launch gives the option."""

from dataclasses import dataclass, field
from typing import Optional

from transformers import AutoModelForMaskedLM, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    base: Optional[str] = field(default=None)


model_args, training_args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
if model_args.base:
    model = AutoModelForMaskedLM.from_pretrained(model_args.base, device_map="auto")  # expect: D204 error
else:
    raise NotImplementedError
    model = AutoModelForMaskedLM.from_config(model_args)
Trainer(model=model, args=training_args).train()
