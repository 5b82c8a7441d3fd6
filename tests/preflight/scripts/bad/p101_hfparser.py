from dataclasses import dataclass, field
from typing import Optional
import torch, transformers
from transformers import HfArgumentParser, Trainer
@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="gpt2")
    torch_dtype: str = field(default="float16")
@dataclass
class TrainingArguments(transformers.TrainingArguments):
    fp16: bool = field(default=True)
    optim: str = field(default="adamw_torch")
def train():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_args.model_name_or_path,
        torch_dtype=model_args.torch_dtype,  # expect: P101 error
    )
    trainer = Trainer(model=model, args=training_args)
    trainer.train()
if __name__ == "__main__":
    train()
