# target: capability=8.0 processes=4
"""Hooks in a defaultdict by their events, and under two decorators: what one event does says nothing of others."""

import functools
from collections import defaultdict

import torch
import torch.distributed as dist


def only_first(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args) if dist.get_rank() == 0 else None

    return inner


class Hooks:
    def __init__(self):
        self.by_event = defaultdict(list)
        self.named = {}

    def on(self, event):
        def keep(function):
            self.by_event[event].append(function)
            return function

        return keep

    def name(self, event, function):
        self.named.setdefault(event, []).append(function)

    def fire(self, event, step):
        for function in self.by_event[event]:
            function(step)
        for function in self.named.get(event, []):
            function(step)


hooks = Hooks()


@hooks.on("log")
@only_first
def report(step):
    print(step)


@hooks.on("save")
@only_first
def save(step):
    dist.barrier()  # expect: R404 error


def end(step):
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1))  # expect: R404 error


dist.init_process_group("gloo")
hooks.name("end", end)
hooks.fire("log", 1)
hooks.fire("log", 2)
hooks.fire("save", 3)
hooks.fire("end", 4)
