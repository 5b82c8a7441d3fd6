from transformers import Trainer, TrainingArguments, AutoTokenizer
def main():
    tokenizer = AutoTokenizer.from_pretrained("x")
    kwargs = {
        "args": TrainingArguments("o"),
        "tokenizer": tokenizer,  # expect: V301 warning
    }
    t = Trainer(model=None, **kwargs)
    t.train()
if __name__ == "__main__":
    main()
