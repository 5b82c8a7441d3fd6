import torch
from transformers import T5ForConditionalGeneration, Seq2SeqTrainer, Seq2SeqTrainingArguments
model = T5ForConditionalGeneration.from_pretrained("t5-base")
model = model.to(device="cuda", dtype=torch.half)  # expect: D202 warning, P101 error
trainer = Seq2SeqTrainer(model, Seq2SeqTrainingArguments("o", fp16=True, predict_with_generate=True))
trainer.train(resume_from_checkpoint=False)
