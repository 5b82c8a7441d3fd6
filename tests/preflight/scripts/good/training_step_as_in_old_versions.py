# target: capability=8.0 processes=2
"""The Trainer's own training_step, copied: which branch runs is up to the Trainer."""

from apex import amp
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


class Copied(Trainer):
    def training_step(self, model, inputs):
        loss = self.compute_loss(model, self._prepare_inputs(inputs))
        if self.do_grad_scaling:
            self.scaler.scale(loss).backward()
        elif self.use_apex:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        elif self.other:
            self.accelerator.backward(loss)
        else:
            loss.backward()
        return loss.detach()


model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", torch_dtype="float32")
Copied(model=model, args=TrainingArguments("out", fp16=True), train_dataset=[]).train()
