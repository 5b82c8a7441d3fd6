import os

import torch

device = torch.device("cuda")
scaler = torch.cuda.amp.GradScaler(2.0**12)
other = torch.amp.GradScaler(device, enabled=True)
with torch.autocast(device.type, dtype=torch.bfloat16), torch.cuda.amp.autocast(True):
    pass
with torch.amp.autocast(enabled=False, device_type=str(device)):
    pass
with torch.autocast(f"cuda:{os.environ['LOCAL_RANK']}", dtype=torch.bfloat16):
    pass
with torch.autocast("cuda:" + str(torch.distributed.get_node_local_rank())):
    pass
