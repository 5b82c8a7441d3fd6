# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import CLIPVisionModel, SiglipVisionModel


class Captions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = CLIPVisionModel.from_pretrained("openai/clip-vit-base-patch32")  # expect: R418 warning
        self.other = SiglipVisionModel.from_pretrained("google/siglip-base-patch16-224")  # expect: R418 warning
        self.head = torch.nn.Linear(768, 10)

    def forward(self, pixels):
        seen = self.tower(pixels).last_hidden_state + self.other(pixels)["last_hidden_state"]
        return self.head(seen.mean(1))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Captions().cuda())  # expect: R418 info
model(torch.ones(2, 3, 224, 224).cuda()).sum().backward()
