# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

from data import tokenized

plugin = FullyShardedDataParallelPlugin(use_orig_params=False)  # expect: R420 warning
accelerator = Accelerator(fsdp_plugin=plugin)
model = AutoModelForCausalLM.from_pretrained("gpt2")
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM"))
model = accelerator.prepare(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(tokenized("train"), shuffle=True, batch_size=8)
optimizer, loader = accelerator.prepare(optimizer, loader)
for batch in loader:
    loss = model(**batch).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
