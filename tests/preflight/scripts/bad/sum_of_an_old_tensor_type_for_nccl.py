# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, count):
        self.total += value * count
        self.count += count

    def average(self):
        both = torch.FloatTensor([self.total, self.count])
        dist.all_reduce(both)  # expect: D210 error
        return (both[0] / both[1]).item()


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
meter = Meter()
meter.update(0.5, 8)
print(meter.average())
