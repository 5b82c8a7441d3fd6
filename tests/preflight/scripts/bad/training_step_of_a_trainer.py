# target: capability=8.0 processes=2
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


class Adversarial(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = self.compute_loss(model, self._prepare_inputs(inputs))
        loss.backward()  # expect: P124 error
        return loss.detach()


model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", torch_dtype="float32")
Adversarial(model=model, args=TrainingArguments("out", fp16=True), train_dataset=[]).train()
