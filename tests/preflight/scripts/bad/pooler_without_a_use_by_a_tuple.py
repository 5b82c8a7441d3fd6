# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoModel, BertModel

from data import Images


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = AutoModel.from_pretrained("roberta-base")  # expect: R418 warning
        self.head = torch.nn.Linear(768, 9)

    def forward(self, ids, mask):
        hidden, _ = self.bert(ids, mask, return_dict=False)
        return self.head(hidden[:, 0])


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(Tagger().cuda(), device_ids=[local_rank])
data = Images("train")
sampler = DistributedSampler(data)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for ids, mask, y in DataLoader(data, batch_size=8, sampler=sampler):
        loss = torch.nn.functional.cross_entropy(model(ids.cuda(), mask.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
