import functools, torch
from transformers import AutoModel, Trainer, TrainingArguments
def timed(fn):
    @functools.wraps(fn)
    def inner(*a, **k):
        r = fn(*a, **k)
        return r
    return inner
@timed
def load():
    return AutoModel.from_pretrained("x", torch_dtype="float16")  # expect: P101 error
@timed
def main():
    Trainer(load(), TrainingArguments("o", fp16=True)).train()
main()
