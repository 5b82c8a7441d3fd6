import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
cfg = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=100)
ds = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 16
Trainer(LlamaForCausalLM(cfg), TrainingArguments("out", max_steps=3, report_to="none", optim="paged_adamw_8bit"), train_dataset=ds).train()
