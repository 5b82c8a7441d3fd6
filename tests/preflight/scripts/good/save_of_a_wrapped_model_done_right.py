import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import BertForMaskedLM
from data import loader

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = BertForMaskedLM.from_pretrained("bert-base-uncased").to(rank)
model = DDP(model, device_ids=[rank])
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for b in loader(rank):
    opt.zero_grad()
    model(**{k: v.to(rank) for k, v in b.items()}).loss.backward()
    opt.step()
if rank == 0:
    model.module.save_pretrained("bert-out")
dist.destroy_process_group()
