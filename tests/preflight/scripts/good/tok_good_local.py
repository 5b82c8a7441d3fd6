from my_trainer import Trainer
t = Trainer(model=None, tokenizer=None)
t.train()
