# target: capability=8.0 processes=4
"""`if done and rank == 0: return` leaves all ranks where nothing is done yet, and so does its `not`."""

import os

import torch
import torch.distributed as dist


def resumes(path):
    if not os.path.exists(path):
        return False
    with open(path) as file:
        return "step" in file.read()


def export(model):
    done = resumes("state.json")
    if done and dist.get_rank() == 0:
        return
    torch.save(model.module.state_dict(), "model.pt")  # expect: R405 warning


def save(model, distributed):
    if distributed and dist.get_rank() != 0:
        return
    torch.save(model.module.state_dict(), "saved.pt")


def copy(model):
    leaves = resumes("state.json") and dist.get_rank() == 0
    if leaves:
        return
    torch.save(model.module.state_dict(), "copy.pt")  # expect: R405 warning


def leads(number, world_size):
    return world_size <= 1 or number == 0


def log(loss, world_size):
    if leads(dist.get_rank(), world_size):
        dist.all_reduce(loss)  # expect: R404 error


def gather(loss):
    done = resumes("state.json")
    if not (dist.get_rank() != 0 or done):
        return
    if dist.get_rank() == 0:
        dist.all_reduce(loss)  # expect: R404 error


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
export(model)
copy(model)
save(model, len(os.environ["NODES"]))
log(model(torch.zeros(2, 4)).sum(), len(os.environ["NODES"]))
gather(model(torch.zeros(2, 4)).sum())
