# target: capability=8.0 processes=4 args=
import os

import torch
import torch.distributed as dist


class Groups:
    def __init__(self, rows: list[list[int]]) -> None:
        self.by_ranks = {}
        for row in rows:
            sorted_ranks = tuple(sorted(row))
            if sorted_ranks not in self.by_ranks:
                self.by_ranks[sorted_ranks] = self.make(row)

    def make(self, ranks: list[int]) -> dist.ProcessGroup:
        return dist.new_group(ranks=ranks)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
groups = Groups([[0, 1], [2, 3]])
