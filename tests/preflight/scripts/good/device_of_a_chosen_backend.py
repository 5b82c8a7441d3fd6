# target: capability=8.0 processes=4
"""A device by number is the default of one process; the backend of ranks puts theirs in its place."""
import argparse, os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP



class Single:
    def __init__(self, args): self.rank = None
    def adjust(self, args): return args
    def transform(self, model): return model



class Data:
    def __init__(self, args):
        dist.init_process_group(backend=args.distributed_backend)
        self.local_rank = int(os.environ["LOCAL_RANK"])
    def adjust(self, args):
        args.device = f"cuda:{self.local_rank}"
        return args
    def transform(self, model): return DDP(model, device_ids=[self.local_rank])

BACKENDS = {None: Single, "nccl": Data}

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--distributed_backend", default=None, choices=list(BACKENDS.keys()))
    args = parser.parse_args()
    backend = BACKENDS[args.distributed_backend](args)
    args = backend.adjust(args)
    torch.cuda.set_device(torch.device(args.device))
    model = torch.nn.Linear(3, 3).to(args.device)
    model = backend.transform(model)
    opt = torch.optim.SGD(model.parameters(), lr=1)
    for _ in range(10):
        model(torch.ones(3, device=args.device)).sum().backward(); opt.step()
main()
