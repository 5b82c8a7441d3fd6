from transformers import TrainingArguments
args = TrainingArguments(
    output_dir="o",
    evaluation_strategy="epoch",  # expect: V301 warning
    save_strategy="epoch",
)
