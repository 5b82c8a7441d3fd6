# target: processes=4
import os

import torch
import zoo
from torch.nn.parallel import DistributedDataParallel


def build(config):
    model = getattr(zoo, config["model"])(config)
    return model.to(device="cuda", dtype=torch.float16)  # expect: P102 warning


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(build({"model": os.environ["MODEL"]}))
optimizer = torch.optim.AdamW(zoo.groups(model), lr=1e-3)
for batch in range(3):
    model(batch).sum().backward()
    optimizer.step()
