# target: capability=8.0 processes=2
import sys
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, TrainingArguments, Trainer
from dataclasses import dataclass, field
import torch


@dataclass
class ModelArgs:
    model_name_or_path: str = field(default="facebook/opt-350m")
    torch_dtype: str = field(default="float16", metadata={"help": "dtype"})
    low_cpu_mem_usage: bool = field(default=True)


def main():
    parser = HfArgumentParser((ModelArgs, TrainingArguments))
    model_args, training_args = parser.parse_dict({"output_dir": "x", "fp16": True})
    torch_dtype = (
        model_args.torch_dtype
        if model_args.torch_dtype in ["auto", None]
        else getattr(torch, model_args.torch_dtype)
    )
    model = AutoModelForCausalLM.from_pretrained(
        model_args.model_name_or_path,
        torch_dtype=torch_dtype,  # expect: P101 error
        low_cpu_mem_usage=model_args.low_cpu_mem_usage,
    )
    trainer = Trainer(model=model, args=training_args, train_dataset=torch.load("ds.pt"))
    result = trainer.train()
    trainer.log_metrics("train", result.metrics)


if __name__ == "__main__":
    main()
