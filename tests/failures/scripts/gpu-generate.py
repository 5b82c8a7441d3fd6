import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_embd=64, n_layer=2, n_head=4)).cuda().half()
with torch.no_grad():
    model.transformer.h[0].mlp.c_fc.weight.mul_(4e5)
ids = torch.randint(0, 256, (2, 8), device="cuda")
print(model.generate(ids, do_sample=True, max_new_tokens=16, pad_token_id=0))
