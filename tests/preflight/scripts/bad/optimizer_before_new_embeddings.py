import torch
from transformers import GPT2LMHeadModel, GPT2Tokenizer
from data import loader

tok = GPT2Tokenizer.from_pretrained("gpt2")
model = GPT2LMHeadModel.from_pretrained("gpt2").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)  # expect: P142 info
tok.add_special_tokens({"pad_token": "<pad>", "bos_token": "<s>"})
model.resize_token_embeddings(len(tok))
for epoch in range(3):
    for batch in loader(tok):
        ids = batch["input_ids"].to("cuda")
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
