# target: capability=8.0 processes=4 args=
import sys

import torch
import torch.distributed as dist


class Stage:
    def __init__(self, before, behind):
        self.before, self.behind = before, behind

    def forward(self, x):
        if self.before is not None:
            dist.recv(x, src=self.before)
        y = x * 2
        if self.behind is not None:
            dist.send(y, dst=self.behind)
        return y


def main(plan):
    dist.init_process_group("gloo")
    Stage(plan.before, plan.behind).forward(torch.zeros(2))


main(sys.modules["plan"])
