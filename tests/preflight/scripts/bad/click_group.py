# target: capability=8.0 processes=2
import click
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, DataCollatorForLanguageModeling
from datasets import load_dataset


@click.group()
@click.pass_context
def cli(ctx):
    ctx.ensure_object(dict)


@cli.command()
@click.option("--model", "model_name", default="gpt2")
@click.option("--device-map", "device_map", default="auto", show_default=True)
@click.option("--bf16/--no-bf16", default=True)
def finetune(model_name, device_map, bf16):
    tok = AutoTokenizer.from_pretrained(model_name)
    tok.pad_token = tok.eos_token
    model = AutoModelForCausalLM.from_pretrained(model_name, device_map=device_map, torch_dtype="auto")  # expect: D204 error
    ds = load_dataset("imdb", split="train").map(lambda b: tok(b["text"], truncation=True), batched=True)
    Trainer(model=model, args=TrainingArguments("o", bf16=bf16), train_dataset=ds, data_collator=DataCollatorForLanguageModeling(tok, mlm=False)).train()


@cli.command()
def evaluate():
    AutoModelForCausalLM.from_pretrained("o", device_map="auto")


if __name__ == "__main__":
    cli(obj={})
