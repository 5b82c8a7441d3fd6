import os

import torch
import torch.distributed as dist
from mmengine.registry import Registry


class TwoSteps:
    def __init__(self):
        self._entries = {}

    def _do_register(self, name, entry):
        self._entries[name] = entry

    def register(self, entry):
        self._do_register(entry.__name__, entry)
        return entry


OWN = TwoSteps()
LOOPS = Registry("loops")


@OWN.register
class Quiet:
    def train(self, x):
        dist.all_reduce(x)
        if dist.get_rank() == 0:
            print(x)


@LOOPS.register_module()
class Loop(Quiet):
    pass


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
OWN._entries["Quiet"]().train(torch.ones(1, device="cuda"))
LOOPS.build({"type": "Loop"}).train(torch.ones(1, device="cuda"))
