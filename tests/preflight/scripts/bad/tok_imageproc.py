from transformers import (
    AutoImageProcessor,
    Trainer,
    TrainingArguments,
)
class App:
    def __init__(self, name):
        self.image_processor = AutoImageProcessor.from_pretrained(name)
        self.args = TrainingArguments(output_dir="./out", per_device_train_batch_size=8)
    def fit(self, model, train, evals):
        self.trainer = Trainer(
            model=model,
            args=self.args,
            train_dataset=train,
            eval_dataset=evals,
            tokenizer=self.image_processor,  # expect: V301 warning
        )
        return self.trainer.train()
if __name__ == "__main__":
    App("google/vit").fit(None, None, None)
