import json
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch_xla.core.xla_model as xm
from accelerate import Accelerator
import torch.distributed as dist
from datasets import load_from_disk
from data import build, meet


def wait_for_all():
    if dist.is_initialized():
        dist.barrier()


def load(path):
    if dist.get_rank() == 0 and not os.path.exists(path):
        build().save_to_disk(path)
    wait_for_all()
    return load_from_disk(path)


def load_first(path):
    if dist.get_rank() != 0:
        dist.barrier()
    if dist.get_rank() == 0:
        build().save_to_disk(path)
    data = load_from_disk(path)
    if dist.get_rank() == 0:
        dist.barrier()
    return data


def load_late(path):
    if dist.get_rank() == 0:
        build().save_to_disk(path)
    else:
        while not os.path.exists(path + "/done"):
            time.sleep(1)
    return load_from_disk(path)


def meet_deep():
    wait_for_all()


def load_in_turn(accelerator, path):
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            build().save_to_disk(path)
        return load_from_disk(path)


def load_behind_meetings(path):
    if dist.get_rank() == 0:
        build().save_to_disk(path + "/1")
    xm.rendezvous("saved")
    first = load_from_disk(path + "/1")
    if dist.get_rank() == 0:
        build().save_to_disk(path + "/2")
    meet()
    second = load_from_disk(path + "/2")
    if dist.get_rank() == 0:
        build().save_to_disk(path + "/3")
    meet_deep()
    third = load_from_disk(path + "/3")
    if dist.get_rank() == 0:
        build().save_to_disk(path + "/4")
        Path(path, "done").touch()
    while not Path(path, "done").is_file():
        pass
    return first, second, third, load_from_disk(path + "/4")


def load_received(path):
    number = torch.zeros(1, device="cuda")
    if dist.get_rank() == 0:
        build().save_to_disk(path)
        for other in range(1, dist.get_world_size()):
            dist.send(number, dst=other)
    else:
        dist.recv(number, src=0)
    return load_from_disk(path)


def load_others(path):
    if dist.get_rank() == 0:
        np.save(path, np.zeros(4))
    means = np.load(path) if dist.get_rank() == 0 else None
    if dist.get_rank() == 0:
        torch.save(means, path)
    path = os.environ["RESUME"]
    state = torch.load(path, map_location="cpu")
    if dist.get_rank() == 0:
        with open("statistics.json", "w") as file:
            json.dump({}, file)
    file = open("labels.json")
    return means, state, json.load(file)


def save_states(folder, state):
    rank = dist.get_rank()
    os.makedirs(os.path.join(folder, "parts"), exist_ok=True)
    if rank == 0:
        os.makedirs(os.path.join(folder, "parts"), exist_ok=True)
    torch.save(state, os.path.join(os.path.join(folder, "parts"), f"{rank}.pt"))
    if rank == 0:
        os.makedirs(folder + "/whole", exist_ok=True)
    rank == 0 and torch.save(state, os.path.join(folder + "/whole", "state.pt"))
    if rank == 0:
        os.makedirs(folder + "/last", exist_ok=True)
    if rank != 0:
        return
    torch.save(state, os.path.join(folder + "/last", "state.pt"))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rank = dist.get_rank()
first, second, third = load("a"), load_first("b"), load_late("c")
load_in_turn(Accelerator(), "d"), load_behind_meetings("e"), load_received("f"), load_others("g.npy")
save_states("parts", {})
if rank == 0:
    os.makedirs("states", exist_ok=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
torch.save(model.state_dict(), os.path.join("states", f"{rank}.pt"))
if rank == 0:
    torch.save(model.module.state_dict(), "last.pt")
before = torch.load("earlier.pt", map_location="cpu")
if rank == 0:
    again = torch.load("last.pt", map_location="cpu")
# target: capability=8.0 processes=4
