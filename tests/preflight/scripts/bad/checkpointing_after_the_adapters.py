# target: capability=8.0 processes=1 transformers=4.47 torch=2.5
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=8)).cuda()
model.gradient_checkpointing_enable()  # expect: P125 warning
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
model(input_ids=torch.ones(1, 4).long().cuda()).loss.backward()
optimizer.step()
