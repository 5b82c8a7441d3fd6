import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, AutoTokenizer
model_id = "facebook/opt-350m"
tokenizer = AutoTokenizer.from_pretrained(model_id)
model = AutoModelForCausalLM.from_pretrained(
    model_id,
    torch_dtype=torch.float16,  # expect: P101 error
    device_map="auto",  # expect: D204 warning
)
training_args = TrainingArguments(
    output_dir="o",
    fp16=torch.cuda.is_available(),
)
trainer = Trainer(model=model, args=training_args, tokenizer=tokenizer, train_dataset=None)  # expect: V301 warning
trainer.train()
