import json
import os

import numpy as np
import torch
import torch.distributed as dist
from datasets import load_from_disk
from data import build, statistics


def load(path):
    if dist.get_rank() == 0 and not os.path.exists(path):
        build().save_to_disk(path)
    return load_from_disk(path)  # expect: R416 warning


def save_state(folder, state, rank):
    if rank == 0:
        os.makedirs(folder, exist_ok=True)
    torch.save(state, os.path.join(folder, f"state_{rank}.pt"))  # expect: R416 warning


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
data = load("cache/tokens")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), "first.pt")
model.module.load_state_dict(torch.load("first.pt", map_location="cpu"))  # expect: R416 warning
if dist.get_rank() == 0:
    with open("statistics.json", "w") as file:
        json.dump(statistics(data), file)
    np.save("means.npy", np.zeros(4))
means = np.load("means.npy")  # expect: R416 warning
save_state("states", model.state_dict(), dist.get_rank())
# target: capability=8.0 processes=4
