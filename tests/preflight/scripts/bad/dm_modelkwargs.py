from transformers import AutoModelForCausalLM, TrainingArguments
from trl import SFTTrainer
model_kwargs = dict(
    attn_implementation="sdpa",
    device_map="auto",  # expect: D204 warning
)
model = AutoModelForCausalLM.from_pretrained("x", **model_kwargs)
trainer = SFTTrainer(model=model, args=TrainingArguments("o"), train_dataset=None)
trainer.train()
