from transformers import TrainingArguments, Trainer, AutoModelForCausalLM
args = TrainingArguments("o")
args.bf16 = True  # expect: P131 info
Trainer(AutoModelForCausalLM.from_pretrained("x", torch_dtype="float32"), args).train()
