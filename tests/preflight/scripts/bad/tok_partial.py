from functools import partial
from transformers import Trainer
def go(model, args, tok):
    make = partial(Trainer, model=model, args=args, tokenizer=tok)  # expect: V301 warning
    make().train()
