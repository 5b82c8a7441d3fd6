from transformers import Trainer, TrainingArguments, AutoModel
def main():
    args = TrainingArguments("o", bf16_full_eval=True)
    t = Trainer(model=AutoModel.from_pretrained("x", dtype="float32"), args=args)
    before = t.evaluate()  # expect: P117 warning
    result = t.train()
    after = t.evaluate()
main()
