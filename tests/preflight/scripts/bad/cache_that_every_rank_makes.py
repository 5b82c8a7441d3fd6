# target: capability=8.0 processes=4
import os
import pickle

import torch
import torch.distributed as dist


def build(cache):
    rows = [[float(word) for word in line.split()] for line in open("train.txt")]
    with open(cache, "wb") as file:  # expect: R405 warning
        pickle.dump(rows, file)


def load(cache):
    if not os.path.exists(cache):
        build(cache)
    dist.barrier()
    with open(cache, "rb") as file:
        return torch.tensor(pickle.load(file))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rows = load("cache.pkl")
