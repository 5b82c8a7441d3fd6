import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from datasets import load_dataset

tok = AutoTokenizer.from_pretrained("gpt2")
tok.pad_token = tok.eos_token
model = AutoModelForCausalLM.from_pretrained("gpt2")
ds = load_dataset("wikitext", "wikitext-2-raw-v1", split="train").map(lambda b: tok(b["text"], truncation=True), batched=True)

def collate(features):
    batch = tok.pad(features, return_tensors="pt")
    batch["labels"] = batch["input_ids"].clone()
    return {k: v for k, v in batch.items()}

args = TrainingArguments("out", per_device_train_batch_size=8, dataloader_num_workers=4, remove_unused_columns=False)
Trainer(model=model, args=args, train_dataset=ds, data_collator=collate).train()
