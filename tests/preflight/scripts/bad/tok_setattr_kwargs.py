from transformers import Trainer
def go(model, args, tok):
    kw = {}
    kw["model"] = model
    kw["tokenizer"] = tok  # expect: V301 warning
    Trainer(args=args, **kw).train()
