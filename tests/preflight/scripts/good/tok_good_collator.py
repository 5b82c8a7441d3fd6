from transformers import DataCollatorWithPadding, Trainer, AutoTokenizer, TrainingArguments, pipeline
tok = AutoTokenizer.from_pretrained("x")
c = DataCollatorWithPadding(tokenizer=tok)
t = Trainer(model=None, args=TrainingArguments("o"), data_collator=c, processing_class=tok)
t.train()
pipeline("text-generation", model="x", tokenizer=tok)
