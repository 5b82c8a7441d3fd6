from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments
class FineTuner:
    def __init__(self, name):
        self.name = name
        self._load()
    def _load(self):
        self.model = AutoModelForSeq2SeqLM.from_pretrained(self.name, device_map="auto")  # expect: D204 warning
    def train(self, ds):
        args = Seq2SeqTrainingArguments(output_dir="o")
        trainer = Seq2SeqTrainer(model=self.model, args=args, train_dataset=ds)
        trainer.train()
def main():
    ft = FineTuner("t5-small")
    ft.train(None)
if __name__ == "__main__":
    main()
