from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
def main():
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
    model = model.half()  # expect: P101 error
    args = TrainingArguments("o", fp16=True, learning_rate=2e-5)
    Trainer(model=model, args=args).train()
if __name__ == "__main__":
    main()
