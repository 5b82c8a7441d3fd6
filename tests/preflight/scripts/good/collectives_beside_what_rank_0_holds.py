# target: capability=8.0 processes=4
import os
import sys

import torch
import torch.distributed as dist
import tqdm

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
loss = torch.zeros(1).cuda()
bar = tqdm.tqdm(range(3)) if dist.get_rank() == 0 else None
items = range(3) if dist.get_rank() == 0 else range(4)
for step in range(3):
    dist.reduce(loss, 0)
    if bar is not None:
        bar.update(1)
    if items is not None:
        dist.reduce(loss, 0)
dist.is_initialized() and dist.barrier()
dist.get_rank() == 0 or print(loss)

role = "main" if dist.get_rank() == 0 else "worker"
name = "run"
if dist.get_rank() == 0:
    name = "main"
if role == "main":
    torch.save(loss, "loss.pt")
    dist.broadcast(loss, 0)
else:
    dist.broadcast(loss, 0)
if role != "other":
    dist.reduce(loss, 0)
role = "main"
if role == name or name != "main":
    dist.reduce(loss, 0)

settings = {"lr": 1} if dist.get_rank() == 0 else {}
box, stop = [settings], False
dist.broadcast_object_list(box)
settings = box[0]
if settings:
    dist.reduce(loss, 0)
for step in range(3):
    if dist.get_rank() == 0 and step == 2:
        stop = True
    told = [stop]
    dist.broadcast_object_list(object_list=told, src=0)
    stop = told[0]
    if stop:
        break
    dist.all_reduce(loss)

def share(listed):
    dist.broadcast_object_list(listed, src=0)


shared = ["last.pt" if dist.get_rank() == 0 else None]
share(shared)
if shared[0]:
    dist.reduce(loss, 0)
for step in range(9):
    dist.reduce(loss, 0)
    for each in range(step) if dist.get_rank() == 0 else ():
        print(each)
    if dist.get_rank() == 0:
        while loss.item() > step:
            if step == 4:
                break
        stop = torch.tensor(int(loss.item() < 0.1)).cuda()
        dist.broadcast(stop, 0)
        if stop:
            break
    else:
        stop = torch.zeros(1).cuda()
        dist.broadcast(stop, 0)
        if stop:
            break


def end(loss):
    for _ in range(9):
        dist.all_reduce(loss)
        if dist.get_rank() == 0 and loss.item() > 9:
            sys.exit("diverged")  # ends all of the launch
        if dist.get_rank() == 0 and loss.item() < 0.1:
            break
        if dist.get_rank() != 0 and loss.item() < 0.1:
            raise SystemExit


end(loss)


def follow(loss):
    while True:
        told = [loss.item() < 0.1]
        dist.broadcast_object_list(told, src=0)
        if dist.get_rank() == 0:
            print(told)
            if told[0]:
                break
        elif told[0]:
            return
        dist.all_reduce(loss)


follow(loss)


def show(loss):
    dist.all_reduce(loss)
    if dist.get_rank() == 0 and loss.item() < 0.1:
        return
    print(loss)


show(loss)
show(loss)  # what comes before a way out is done


def ends(loss, rank=0):
    if os.path.exists("stop"):
        if rank == 0:
            return 1
        else:
            return 1
    return 0


if ends(loss) == 1:
    dist.all_reduce(loss)
