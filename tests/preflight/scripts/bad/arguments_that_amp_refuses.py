import os

import torch
from torch.cuda.amp import GradScaler

device = torch.device("cuda")
scaler = GradScaler("cuda")  # expect: V303 error
other = GradScaler(device="cuda")  # expect: V303 error
with torch.autocast(device):  # expect: V303 error
    pass
with torch.autocast(dtype=torch.float16):  # expect: V303 error
    pass
with torch.cuda.amp.autocast(device_type="cuda"):  # expect: V303 error
    pass
with torch.autocast(torch.device(f"cuda:{os.environ['LOCAL_RANK']}")):  # expect: V303 error
    pass
