import torch
from transformers import AutoModel, TrainingArguments

DTYPES = {"half": torch.float16, "full": torch.float32}


def load_model(name, kind="half"):
    return AutoModel.from_pretrained(name, torch_dtype=DTYPES[kind])  # expect: P101 error


def training_arguments():
    return TrainingArguments("o", fp16=True)
