import click, torch
from transformers import AutoModel, Trainer, TrainingArguments
@click.command()
@click.option("--fp16/--no-fp16", default=True)
def main(fp16):
    model = AutoModel.from_pretrained("x", torch_dtype=torch.float16)  # expect: P101 error
    Trainer(model, TrainingArguments("o", fp16=fp16)).train()
if __name__ == "__main__":
    main()
