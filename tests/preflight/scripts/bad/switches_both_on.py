from transformers import TrainingArguments
args = TrainingArguments(
    "o",
    fp16=True,
    bf16=True,  # expect: P127 error
)
