import torch, argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
p = argparse.ArgumentParser()
p.add_argument("--dtype", default="float16", choices=["float16", "bfloat16", "float32"])
p.add_argument("--fp16", action="store_true", default=True)
args = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=getattr(torch, args.dtype))  # expect: P101 error
Trainer(model, TrainingArguments("o", fp16=args.fp16)).train()
