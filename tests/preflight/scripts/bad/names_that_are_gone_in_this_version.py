# target: capability=8.0 transformers=4.52 trl=0.14
from transformers import AdamW, TrainingArguments  # expect: V304 error
from trl import SFTTrainer

arguments = TrainingArguments(
    "out",
    evaluation_strategy="epoch",  # expect: V301 error
)
trainer = SFTTrainer(
    "gpt2",
    args=arguments,
    train_dataset=[],
    eval_dataset=[],
    max_seq_length=2048,  # expect: V301 error
)
