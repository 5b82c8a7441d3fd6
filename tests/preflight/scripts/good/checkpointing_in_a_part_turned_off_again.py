# target: capability=8.0 processes=2 transformers=4.40
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModel


class Classifier(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(768, 2)

    def forward(self, ids):
        return self.head(self.encoder(ids)[0][:, 0])


torch.distributed.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
encoder = AutoModel.from_pretrained("bert-base-uncased", torch_dtype=torch.float32)
encoder.gradient_checkpointing_enable()
encoder.gradient_checkpointing_disable()
model = Classifier(encoder).cuda()
model = DistributedDataParallel(
    model,
    device_ids=[local_rank],
    find_unused_parameters=True,
)
