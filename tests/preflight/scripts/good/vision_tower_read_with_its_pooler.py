# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import CLIPVisionModel, SiglipVisionModel


class Captions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = CLIPVisionModel.from_pretrained("openai/clip-vit-base-patch32")
        self.other = SiglipVisionModel.from_pretrained("google/siglip-base-patch16-224")
        self.head = torch.nn.Linear(768, 10)

    def forward(self, pixels):
        seen = self.tower(pixels).pooler_output + self.other(pixels)["pooler_output"]
        return self.head(seen)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Captions().cuda())
model(torch.ones(2, 3, 224, 224).cuda()).sum().backward()
