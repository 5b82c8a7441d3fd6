from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("x")
model.enable_input_require_grads()
model = get_peft_model(model, LoraConfig(r=8))
args = TrainingArguments("o", gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": True})
Trainer(model, args).train()
