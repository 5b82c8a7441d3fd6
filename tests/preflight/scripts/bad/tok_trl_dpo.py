from trl import DPOTrainer
def go(model, ref, args, tokenizer, ds):
    dpo = DPOTrainer(model, ref, args=args, beta=0.1, train_dataset=ds,
        tokenizer=tokenizer)  # expect: V301 warning
    dpo.train()
