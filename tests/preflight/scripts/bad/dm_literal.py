from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import torch
model = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-2-7b-hf",
    torch_dtype=torch.bfloat16,
    device_map="auto",  # expect: D204 warning
)
Trainer(model=model, args=TrainingArguments("o", bf16=True), train_dataset=None).train()  # expect: P131 info
