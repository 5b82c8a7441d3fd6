from transformers import Trainer
class T(Trainer):
    def __init__(self, model, tokenizer, **kw):
        super().__init__(model=model, processing_class=tokenizer, **kw)
T(model=None, tokenizer=None).train()
