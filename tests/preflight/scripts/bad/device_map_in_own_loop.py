# target: capability=8.0 processes=2
from data import loader
import torch, torch.distributed as dist, os
from transformers import AutoModelForCausalLM
kw = dict(device_map="auto")  # expect: D204 error
dist.init_process_group("nccl"); torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = AutoModelForCausalLM.from_pretrained("gpt2", **kw)
opt = torch.optim.AdamW(model.parameters())
for b in loader():
    loss = model(b).mean(); loss.backward(); opt.step()  # expect: R406 warning
