import torch
from transformers import Trainer
class WeightedTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.pop("labels")
        out = model(**inputs)
        loss = torch.nn.functional.cross_entropy(out.logits, labels)
        return (loss, out) if return_outputs else loss
def run(model, args, tokenizer, ds):
    trainer = WeightedTrainer(model=model, args=args, train_dataset=ds,
                              tokenizer=tokenizer,  # expect: V301 warning
                              )
    trainer.train()
