from transformers import Trainer
def go(model, args, tok):
    kw = {"model": model}
    kw.update(args=args, tokenizer=tok)  # expect: V301 warning
    Trainer(**kw).train()
