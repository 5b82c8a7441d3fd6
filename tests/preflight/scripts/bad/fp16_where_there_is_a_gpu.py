# target: processes=2 transformers=5.1
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


def load(name, half=True):
    dtype = torch.float16 if half else torch.float32
    return AutoModelForSequenceClassification.from_pretrained(
        name,
        torch_dtype=dtype,  # expect: P101 error
        device_map="auto",  # expect: D204 error
    )


def main():
    args = TrainingArguments(
        output_dir="out",
        evaluation_strategy="steps",  # expect: V301 error
        fp16=torch.cuda.is_available(),  # expect: P126 info
    )
    trainer = Trainer(
        load("m"),
        args,
        eval_dataset=[1],
        tokenizer=object(),  # expect: V301 error
    )
    trainer.train()


if __name__ == "__main__":
    main()
