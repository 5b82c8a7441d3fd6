from transformers import Trainer
class MyTrainer(Trainer):
    def __init__(self, *args, alpha=0.5, **kwargs):
        super().__init__(*args, **kwargs)
        self.alpha = alpha
def run(model, args, tokenizer, ds):
    trainer = MyTrainer(model=model, args=args, tokenizer=tokenizer, alpha=1.0)  # expect: V301 warning
    trainer.train()
