import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
def ds(): return [{"input_ids": torch.ones(4).long(), "labels": torch.ones(4).long()}]
class MyTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        out = model(**inputs)
        loss = out.loss
        all_loss = self.accelerator.gather(loss.detach())
        if self.is_world_process_zero():
            print(all_loss.mean())
        return (loss, out) if return_outputs else loss
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32)
trainer = MyTrainer(model=model, args=TrainingArguments("out"), train_dataset=ds())
trainer.train()
