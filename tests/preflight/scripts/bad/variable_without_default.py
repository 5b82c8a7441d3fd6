# target: capability=8.0 processes=2
import os
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, DataCollatorForLanguageModeling
from datasets import load_dataset


def env(name, default, cast=str):
    raw = os.environ.get(name)
    if raw is None:
        return default
    return cast(raw)


BASE = env("BASE_MODEL", "EleutherAI/pythia-410m")
DTYPE = env("DTYPE", "float16")
LR = env("LR", 1e-5, float)


class Factory:
    @staticmethod
    def create(name, *, dtype):
        return AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype, low_cpu_mem_usage=True)  # expect: P101 error


def cli():
    tok = AutoTokenizer.from_pretrained(BASE)
    tok.pad_token = tok.eos_token
    ds = load_dataset("imdb", split="train[:1%]").map(lambda b: tok(b["text"], truncation=True), batched=True)
    model = Factory.create(BASE, dtype=getattr(torch, DTYPE))
    if hasattr(model, "config"):
        model.config.use_cache = False
    args = TrainingArguments(output_dir="o", learning_rate=LR, fp16=True, logging_steps=5)
    Trainer(model=model, args=args, train_dataset=ds, data_collator=DataCollatorForLanguageModeling(tok, mlm=False)).train()


if __name__ == "__main__":
    cli()
