# target: capability=8.0 processes=4 args=
import os
import urllib.request

import torch
import torch.distributed as dist

dist.init_process_group("nccl", device_id=torch.device("cuda"))
urllib.request.urlretrieve("http://example.org/data.tar", "data.tar")  # expect: R405 warning
for epoch in range(9):
    if epoch > 2:
        os.remove(f"checkpoint-{epoch - 3}.pt")  # expect: R405 warning
    if dist.get_rank() == 0:
        torch.save({}, f"checkpoint-{epoch}.pt")
