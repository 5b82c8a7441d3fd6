from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
tok = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(
    model,
    TrainingArguments("out"),
    train_dataset=None,
    tokenizer=tok,  # expect: V301 warning
)
trainer.train()
