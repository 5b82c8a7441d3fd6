import torch
from transformers import AutoModel
model = AutoModel.from_pretrained("x", torch_dtype=torch.float16).cuda()  # expect: P102 error
opt = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in get_loader():
    loss = model(**batch).loss
    loss.backward()
    opt.step()
    opt.zero_grad()
