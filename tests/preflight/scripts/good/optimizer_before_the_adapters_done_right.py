import torch
from transformers import AutoModelForCausalLM
from peft import LoraConfig, get_peft_model
from data import loader

model = AutoModelForCausalLM.from_pretrained("facebook/opt-350m").cuda()
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    batch = {k: v.cuda() for k, v in batch.items()}
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
