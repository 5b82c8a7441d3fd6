# target: capability=8.0 processes=4
"""What a function returns counts where it is used, and the rank's device replaces it before."""
import os

import torch

LOCAL_RANK = int(os.getenv("LOCAL_RANK", "-1"))


def select_device():
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


device = select_device()
if LOCAL_RANK != -1:
    torch.cuda.set_device(LOCAL_RANK)
    device = torch.device("cuda", LOCAL_RANK)
model = torch.nn.Linear(4, 4).to(device)
