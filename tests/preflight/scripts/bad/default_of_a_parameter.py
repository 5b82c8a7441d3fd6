# target: capability=7.5 processes=2
"""A `def` evaluates its defaults, once: names of its class are at hand, and later values change nothing."""

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Run:
    dtype = torch.float16

    def model(self, dtype=dtype):
        return AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=dtype)  # expect: P101 error


half = True


def arguments(fp16=half):
    return TrainingArguments("out", fp16=fp16)


half = False
Trainer(Run().model(), arguments(), train_dataset=[1]).train()
