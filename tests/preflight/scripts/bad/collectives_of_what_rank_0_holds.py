# target: capability=8.0 processes=4
"""What rank 0 alone holds, in an attribute or by a conditional expression; an `and` behind its rank."""
import os
import sys
from enum import Enum

import torch
import torch.distributed as dist
import tqdm


class Role(Enum):
    LEADER = 1
    WORKER = 2


class Team:
    def __init__(self, several=True):
        self.role = Role.LEADER if dist.get_rank() == 0 else Role.WORKER
        self.stop = False
        self.quiet = False
        if several:
            if dist.get_rank() != 0:
                self.quiet = True

    def share(self, loss):
        if self.role is Role.LEADER:
            dist.broadcast(loss, 0)  # expect: R404 error
        if self.role != Role.LEADER:
            return
        dist.all_reduce(loss)  # expect: R404 error

    def report(self, loss):
        if not self.quiet:
            dist.all_reduce(loss)  # expect: R404 error
            torch.save(loss, "loss.pt")


    def train(self, loss):
        for _ in range(9):
            dist.all_reduce(loss)
            if dist.get_rank() == 0 and loss.item() < 0.1:
                self.stop = True
            if self.stop:
                break  # expect: R404 warning


def train(loss):
    for _ in range(9):
        dist.all_reduce(loss)
        if dist.get_rank() == 0 and loss.item() < 0.1:
            return  # expect: R404 warning


def end(loss):
    for _ in range(9):
        for _ in range(9):
            if dist.get_rank() == 0 and loss.item() < 0.1:
                sys.exit(0)  # expect: R404 warning
        dist.all_reduce(loss)


def stop(loss):
    dist.all_reduce(loss)
    if dist.get_rank() == 0 and loss.item() < 0.1:
        return  # expect: R404 warning
    dist.barrier()


def part(rank):
    if rank == 0:
        return "chief"
    return "helper"


def word(rank):
    return {True: "chief", False: "helper"}[rank == 0]


def gather(loss):
    if part(dist.get_rank()) == "chief":
        dist.all_reduce(loss)  # expect: R404 error
    if word(dist.get_rank()) == "chief":
        dist.barrier()  # expect: R404 error


def keep(loss):
    if dist.get_rank():
        return
    dist.all_reduce(loss)  # expect: R404 error


class Log:
    def __init__(self):
        self.file = None
        if dist.get_rank() == 0:
            self.file = open("log.txt", "a")

    def add(self, loss):
        if self.file is not None:
            dist.all_reduce(loss)  # expect: R404 error
            self.file.write(str(loss))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
loss = torch.zeros(1).cuda()
log = Log()
team = Team()
team.share(loss)
team.report(loss)
team.train(loss)
train(loss)
end(loss)
stop(loss)
gather(loss)
keep(loss)
bar = tqdm.tqdm(range(3)) if dist.get_rank() == 0 else None
for step in range(3):
    log.add(loss)
    if bar is not None:
        dist.reduce(loss, 0)  # expect: R404 error
        bar.update(1)
dist.get_rank() == 0 and dist.barrier()  # expect: R404 error
dist.get_rank() == 0 and "VERBOSE" in os.environ and dist.barrier()  # expect: R404 error
stop = False
for step in range(9):
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        print(step)
        if loss.item() < 0.1:
            stop = True
    if stop:
        break  # expect: R404 warning
while "MORE" in os.environ:
    if dist.get_rank() == 0 and loss.item() < 0.1:
        break  # expect: R404 warning
    dist.all_reduce(loss)
