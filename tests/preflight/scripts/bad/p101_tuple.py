import torch
from transformers import AutoModel, AutoTokenizer, Trainer, TrainingArguments
def setup(name):
    tok = AutoTokenizer.from_pretrained(name)
    model = AutoModel.from_pretrained(name, torch_dtype=torch.float16)  # expect: P101 error
    model.resize_token_embeddings(len(tok))
    return model, tok
def main():
    model, tok = setup("x")
    args = TrainingArguments("o")
    args.fp16 = True
    Trainer(model, args, processing_class=tok).train()
main()
