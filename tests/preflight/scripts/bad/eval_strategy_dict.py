from transformers import TrainingArguments, Trainer
CONFIG = {
    "output_dir": "o",
    "evaluation_strategy": "steps",  # expect: V301 warning
    "learning_rate": 2e-5,
}
args = TrainingArguments(**CONFIG)
Trainer(model=None, args=args, eval_dataset=[1]).train()
